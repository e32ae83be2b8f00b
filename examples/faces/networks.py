"""MTCNN's networks without PRelu, which three of the machines do not have."""
import numpy as np
import onnx
from onnx import helper, numpy_helper


def without_prelu(model):
    """The same function with Relu: prelu(x) = relu(x) - slope * relu(-x).

    The layer before gets twice as many channels, x and -x, and a layer of positions alone adds both up again.
    """
    graph = model.graph
    arrays = {array.name: numpy_helper.to_array(array) for array in graph.initializer}
    makers = {output: node for node in graph.node for output in node.output}
    nodes, added = [], {}
    for node in graph.node:
        if node.op_type != "PRelu":
            nodes.append(node)
            continue
        slope = arrays[node.input[1]].reshape(-1)
        maker = makers[node.input[0]]
        double(maker, makers, arrays, added)
        both = np.concatenate([np.eye(len(slope)), -np.diag(slope)], axis=1).astype(np.float32)
        name = f"{node.name}_both"
        nodes.append(helper.make_node("Relu", [node.input[0]], [f"{name}_relu"], name=f"{name}_relu"))
        if maker.op_type == "Conv":
            added[name] = both[:, :, None, None]
            nodes.append(helper.make_node("Conv", [f"{name}_relu", name], node.output, name=node.name))
        else:
            added[name] = both.T
            nodes.append(helper.make_node("MatMul", [f"{name}_relu", name], node.output, name=node.name))
    constants = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in (arrays | added).items()]
    result = helper.make_graph(nodes, graph.name, graph.input, graph.output, constants)
    return onnx.shape_inference.infer_shapes(
        helper.make_model(result, opset_imports=model.opset_import, ir_version=model.ir_version))


def double(node, makers, arrays, added):
    """Makes a layer compute x and -x: a Conv, or the sum of a MatMul and a bias."""
    axis = 0
    if node.op_type == "Add":
        double(makers[node.input[0]], makers, arrays, added)
    elif node.op_type == "MatMul":
        axis = 1
    for place in range(1, len(node.input)):
        name = node.input[place]
        added[f"{name}_double"] = np.concatenate([arrays[name], -arrays[name]], axis=axis)
        node.input[place] = f"{name}_double"
