"""Finding lines of text in pictures, and which way up they are, as PP-OCR does it.

The detector (M. Liao et al., "Real-time scene text detection with differentiable binarization", 2020) gives each
pixel the probability that it lies in the middle of a line.
"""
import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE = 384, 192             # of a page
LINE = 192, 48              # of a line
IN_LINE, IS_LINE = 0.3, 0.6  # least probability of a pixel, and of a line in the mean
LEAST_PIXELS = 16           # of a line
GROWTH = 1.6                # lines are found thinner than they are
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
WORDS = "the quick brown fox jumps over lazy dogs while seven wizards mix jugs of quartz and vex bold nymphs".split()


def page_numbers(page):
    """[3, height, width], as the detector was trained: blue first, divided by the deviation."""
    colours = np.asarray(page.convert("RGB"), float)[..., ::-1] / 255
    return ((colours - MEAN) / DEVIATION).astype(np.float32).transpose(2, 0, 1)


def piece_numbers(page, boxes):
    """[N, 3, 48, 192] from -1 to 1: pieces of lines, as the classifier of orientation was trained."""
    cuts = [page.convert("RGB").crop(tuple(map(int, box))).resize(LINE, Image.Resampling.BILINEAR) for box in boxes]
    return np.stack([(np.asarray(cut, np.float32)[..., ::-1] / 127.5 - 1).transpose(2, 0, 1) for cut in cuts])


def components(mask):
    """Rows and columns of the pixels of each connected part."""
    left = mask.copy()
    for start in zip(*np.nonzero(mask)):
        if not left[start]:
            continue
        left[start] = False
        found = [start]
        for row, column in found:  # grows while it is read
            for place in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if 0 <= place[0] < mask.shape[0] and 0 <= place[1] < mask.shape[1] and left[place]:
                    left[place] = False
                    found.append(place)
        yield np.array(found).T


def lines(probabilities):
    """For each line its box x0, y0, x1, y1, and boxes of pieces along it, four times as long as high."""
    found = []
    for rows, columns in components(probabilities > IN_LINE):
        if probabilities[rows, columns].mean() < IS_LINE or len(rows) < LEAST_PIXELS:
            continue
        box = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1], float)
        width, height = box[2:] - box[:2]
        growth = width * height * GROWTH / (2 * (width + height))
        box += [-growth, -growth, growth, growth]
        found.append((np.clip(box, 0, [*SIZE, *SIZE]).round(), pieces(rows, columns)))
    return found


def pieces(rows, columns):
    """Boxes along a line that may be curved, so that nothing of its neighbours is in them."""
    thick = np.median(np.bincount(columns)[np.unique(columns)])
    height = (1 + GROWTH) * thick
    length = height * LINE[0] / LINE[1]
    boxes = []
    for left in np.arange(columns.min(), max(columns.min() + 1, columns.max() - 0.7 * length), length):
        middle = rows[(columns >= left) & (columns < left + length)].mean() + 0.5
        x, y = left - 0.3 * height, middle - height / 2
        boxes.append([x, y, x + length, y + height])
    return np.rint(boxes)


def overlap(box, boxes):
    """Intersections with a box as shares of the union."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    common = np.prod(np.maximum(sides, 0), axis=1)
    return common / (np.prod(box[2:] - box[:2]) + np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) - common)


def drawn_page(seed):
    """A page of random words on grey, uneven paper, a little turned."""
    random = np.random.default_rng(seed)
    page = Image.new("L", SIZE, int(random.integers(150, 230)))
    pen, top = ImageDraw.Draw(page), 6
    while top < SIZE[1] - 16:
        height = int(random.integers(11, 20))
        words = " ".join(random.choice(WORDS, int(random.integers(2, 7))))
        place, grey = (int(random.integers(4, 40)), top), int(random.integers(10, 70))
        pen.text(place, words, grey, ImageFont.load_default(height))
        top += int(height * random.uniform(1.4, 2))
    paper = np.asarray(page, float) * np.linspace(0.75, 1, SIZE[0]) + random.normal(0, 4, SIZE[::-1])
    page = Image.fromarray(np.clip(paper, 0, 255).astype(np.uint8))
    return page.rotate(random.uniform(-2, 2), Image.Resampling.BILINEAR, fillcolor=180)
