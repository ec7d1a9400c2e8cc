"""What users of llama-index do with OpenAILike.
SPDX-License-Identifier: MIT
"""
import asyncio
import contextlib

from llama_index.core.agent.workflow import AgentStream, FunctionAgent, ReActAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.program import LLMTextCompletionProgram
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel
from workflows.errors import WorkflowRuntimeError

from steps import *

question, weather_question, person = (m[0]["content"] for m in (COUNT, WEATHER, PERSON))
asked_for = []


class Person(BaseModel):
    name: str
    age: int


def weather(city: str) -> str:
    """The weather in a city"""
    asked_for.append(city)
    return RESULT


llm = OpenAILike("qwen", api_base=f"{QWEN}/v1", api_key=KEY, is_chat_model=True, temperature=0,
                 is_function_calling_model=True)
messages = [ChatMessage(role="user", content=question)]
tool = FunctionTool.from_defaults(weather)

step("text, streamed")
whole = llm.chat(messages).message.content
assert "4" in whole
pieces = [r.delta for r in llm.stream_chat(messages)]
assert "".join(pieces) == whole and len(pieces) > 1
plain = OpenAILike("qwen", api_base=f"{QWEN}/v1", api_key=KEY, max_tokens=8, temperature=0)
assert plain.complete("Once").text == "".join(r.delta for r in plain.stream_complete("Once")) != ""

step("structured output")
is_ada(llm.as_structured_llm(Person).complete(person).raw.model_dump())
is_ada(llm.structured_predict(Person, PromptTemplate(person)).model_dump())
*_, last = llm.stream_structured_predict(Person, PromptTemplate(person))
assert type(last).__name__.endswith("Person")
shaped = OpenAILike("qwen", api_base=f"{QWEN}/v1", api_key=KEY, is_chat_model=True, temperature=0,
                    should_use_structured_outputs=True)
is_ada(shaped.structured_predict(Person, PromptTemplate(person)).model_dump())

step("tools")
a = llm.chat_with_tools([tool], weather_question)
asks_oslo(llm.get_tool_calls_from_response(a)[0].tool_kwargs)
a = llm.chat_with_tools([tool], question, tool_required=True)
assert llm.get_tool_calls_from_response(a)[0].tool_name == "weather"
*_, last = llm.stream_chat_with_tools([tool], weather_question)
asks_oslo(llm.get_tool_calls_from_response(last)[0].tool_kwargs)
assert llm.predict_and_call([tool], weather_question).response == RESULT


async def agent(kind, **more):
    run = kind(tools=[tool], llm=llm, **more).run(weather_question, max_iterations=3)
    pieces = [e.delta async for e in run.stream_events() if isinstance(e, AgentStream)]
    with contextlib.suppress(WorkflowRuntimeError):         # a small model may call without end
        await run
    return "".join(pieces)

step("an agent with tools")
asked_for.clear()
asyncio.run(agent(FunctionAgent))
assert asked_for and "Oslo" in asked_for[0]

step("tools and structured output")
asked_for.clear()
asyncio.run(agent(FunctionAgent, output_cls=Person))
assert asked_for and "Oslo" in asked_for[0]

step("an agent that writes its calls as text")
assert asyncio.run(agent(ReActAgent))
