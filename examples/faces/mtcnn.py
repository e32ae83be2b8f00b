"""Face detection with three networks (K. Zhang et al., "Joint face detection and alignment using multitask cascaded
convolutional networks", 2016).

A network is a function from a batch [N, 3, width, height] to (corrections of boxes, probabilities of faces,
marks or None); x comes before y, as in Matlab, where the networks were trained. Boxes are rows of x0, y0, x1, y1.
"""
import numpy as np
from PIL import Image

CANVAS = (128, 96)      # what pnet reads: every level of the pyramid lies in a corner of it
CELL, STRIDE = 12, 2    # pixels that one answer of pnet sees, and between two answers
FACTOR = 0.709          # between two levels of the pyramid
LEAST = (0.6, 0.7, 0.7)  # probability after pnet, rnet and onet


def numbers(image):
    """[3, width, height] from -1 to 1."""
    return ((np.asarray(image, np.float32) - 127.5) / 128).transpose(2, 1, 0)


def pyramid(image):
    """Scales, sizes and canvases of all levels that hold a cell."""
    scale = min(CANVAS[0] / image.width, CANVAS[1] / image.height)
    levels = []
    while min(image.width, image.height) * scale >= CELL:
        size = int(image.width * scale), int(image.height * scale)
        canvas = np.zeros((3, *CANVAS), np.float32)
        canvas[:, :size[0], :size[1]] = numbers(image.resize(size, Image.Resampling.BILINEAR))
        levels.append((scale, size, canvas))
        scale *= FACTOR
    return levels


def overlap(box, boxes, smaller=False):
    """Intersections with a box as shares of the union, or of the smaller of both."""
    sides = np.minimum(box[2:4], boxes[:, 2:4]) - np.maximum(box[:2], boxes[:, :2])
    common = np.prod(np.maximum(sides, 0), axis=1)
    area, areas = np.prod(box[2:4] - box[:2]), np.prod(boxes[:, 2:4] - boxes[:, :2], axis=1)
    return common / (np.minimum(area, areas) if smaller else area + areas - common)


def suppress(boxes, scores, most, smaller=False):
    """Places of the boxes that no more probable box overlaps by more than `most`."""
    order, kept = np.argsort(-scores, kind="stable"), []
    while len(order):
        first, order = order[0], order[1:]
        kept.append(first)
        order = order[overlap(boxes[first], boxes[order], smaller) <= most]
    return np.array(kept, int)


def corrected(boxes, changes):
    """Boxes moved by shares of their sides."""
    sides = boxes[:, 2:4] - boxes[:, :2]
    return boxes + changes * np.concatenate([sides, sides], axis=1)


def squares(boxes):
    """Squares of the longer side around the same middles, on whole pixels."""
    middle, side = (boxes[:, :2] + boxes[:, 2:4]) / 2, (boxes[:, 2:4] - boxes[:, :2]).max(axis=1, keepdims=True)
    return np.rint(np.concatenate([middle - side / 2, middle + side / 2], axis=1))


def crops(image, boxes, size):
    """Parts of the image, black beyond its edges, as a batch."""
    parts = [numbers(image.crop(tuple(map(int, box))).resize((size, size), Image.Resampling.BILINEAR)) for box in boxes]
    return np.stack(parts) if parts else np.zeros((0, 3, size, size), np.float32)


def proposals(levels, changes, scores):
    """Boxes of pnet in pixels of the image, after suppression in and between levels."""
    found = []
    for (scale, size, _), change, score in zip(levels, changes, scores):
        x, y = np.nonzero(score[..., 1] > LEAST[0])
        inside = (STRIDE * x + CELL <= size[0]) & (STRIDE * y + CELL <= size[1])
        x, y = x[inside], y[inside]
        corner = STRIDE * np.stack([x, y], axis=1)
        boxes = np.concatenate([corner, corner + CELL], axis=1) / scale
        kept = suppress(boxes, score[x, y, 1], 0.5)
        found.append(np.concatenate([boxes, change[x, y], score[x, y, 1:]], axis=1)[kept])
    found = np.concatenate(found)
    found = found[suppress(found, found[:, 8], 0.7)]
    return squares(corrected(found[:, :4], found[:, 4:8]))


def detect(image, networks, read=None):
    """Boxes, probabilities and marks of the faces. `read` collects what each network read."""
    pnet, rnet, onet = networks
    read = {} if read is None else read
    levels = pyramid(image)
    read["pnet"] = np.stack([canvas for _, _, canvas in levels])
    boxes = proposals(levels, *pnet(read["pnet"])[:2])
    read["rnet"] = crops(image, boxes, 24)
    if len(boxes):
        changes, scores, _ = rnet(read["rnet"])
        good = scores[:, 1] > LEAST[1]
        kept = suppress(boxes[good], scores[good, 1], 0.7)
        boxes = squares(corrected(boxes[good][kept], changes[good][kept]))
    read["onet"] = crops(image, boxes, 48)
    if not len(boxes):
        return np.zeros((0, 4)), np.zeros(0), np.zeros((0, 5, 2))
    changes, scores, marks = onet(read["onet"])
    good = scores[:, 1] > LEAST[2]
    boxes, changes, scores, marks = boxes[good], changes[good], scores[good, 1], marks[good]
    places = boxes[:, None, :2] + marks.reshape(-1, 2, 5).transpose(0, 2, 1) * (boxes[:, 2:] - boxes[:, :2])[:, None]
    boxes = corrected(boxes, changes)
    kept = suppress(boxes, scores, 0.7, smaller=True)
    return boxes[kept], scores[kept], places[kept]
