"""A real MCP server on standard input and output, made with the `mcp` package of the SDK at hand."""

from __future__ import annotations

from mcp.types import ToolAnnotations

try:
    from mcp.server import MCPServer as Server  # mcp 2.x
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server  # mcp 1.x

server = Server("calculator", log_level="CRITICAL")


# The hint is spelt in camel case by mcp 1.x and in snake case by 2.x; both read the wire's form.
@server.tool(annotations=ToolAnnotations.model_validate({"readOnlyHint": True}))
def add(a: int, b: int) -> str:
    """Adds two whole numbers."""
    return str(a + b)


@server.tool()
def divide(a: int, b: int) -> str:
    """Divides one whole number by another."""
    return str(a // b)


if __name__ == "__main__":
    server.run("stdio")
