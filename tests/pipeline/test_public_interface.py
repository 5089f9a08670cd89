"""What PySpark has for itself alone is used in one module."""

import ast

from own_source import FILES, parsed

_PRIVATE = {
    *("_jvm", "_jsc", "_jdf", "_jconf", "_jsparkSession", "_gateway", "_gateway_client"),
    *("_active_spark_context", "_instantiatedSession", "_accumulatorServer", "_sc", "_jc"),
}
_HOME = "pipeline/jvm.py"


def _uses(source: ast.Module) -> set[str]:
    """Private attributes that are taken from something other than `self`."""
    return {
        node.attr
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute)
        and node.attr in _PRIVATE
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }


def test_one_module_uses_what_pyspark_has_for_itself() -> None:
    users = {file.as_posix(): uses for file in FILES if (uses := _uses(parsed(file)))}
    assert set(users) == {_HOME}
