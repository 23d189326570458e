"""Answers that follow a schema."""

from __future__ import annotations

import jsonschema
from mantyx import parse_run_output
from pydantic import BaseModel

from support.target import NotApplicable, Recorder, prompt, run

REPORT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["city", "temperature", "sky", "hours", "unit"],
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "temperature": {"type": "number", "minimum": -5},
        "sky": {"enum": ["clear", "cloudy"]},
        "unit": {"const": "celsius"},
        "hours": {
            "type": "array",
            "minItems": 2,
            "items": {"$ref": "#/$defs/hour"},
        },
    },
    "$defs": {
        "hour": {
            "type": "object",
            "required": ["at", "rain"],
            "properties": {"at": {"type": "integer"}, "rain": {"type": "boolean"}},
        }
    },
}


class _Report(BaseModel):
    city: str
    temperature: float


def the_answer_is_an_instance_of_the_schema():
    result = run("How is the weather?", output_schema={"name": "report", "schema": REPORT})
    parsed = parse_run_output(result)
    jsonschema.validate(parsed, REPORT)
    assert isinstance(parse_run_output(result, _Report.model_validate), _Report)


def the_answer_follows_the_schema_after_tools_too():
    tool = Recorder("ping")
    result = run(prompt("call ping"), tools=[tool.tool], output_schema={"schema": REPORT})
    jsonschema.validate(parse_run_output(result), REPORT)
    assert len(tool.calls) == 1, tool.calls


def the_result_says_how_the_schema_was_enforced():
    result = run("Weather, please.", output_schema={"schema": REPORT})
    if not hasattr(result, "structured_output"):
        raise NotApplicable("this SDK does not read structuredOutput")
    info = result.structured_output
    assert info is not None and info.schema_requested and info.schema_enforced, info
    assert info.enforcement_mechanism == "native_schema", info
    assert info.unconstrained_fallback_occurred is False, info
