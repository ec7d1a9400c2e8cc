"""What users of langgraph, of langchain's create_agent and of langchain-anthropic do.
SPDX-License-Identifier: MIT
"""
import contextlib

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel

from steps import *

question, weather_question, person = (m[0]["content"] for m in (COUNT, WEATHER, PERSON))
BOUND = {"recursion_limit": 8}
asked_for = []


class Person(BaseModel):
    name: str
    age: int


class Report(BaseModel):
    city: str
    weather: str


@tool
def weather(city: str) -> str:
    """The weather in a city"""
    asked_for.append(city)
    return RESULT


def user(text):
    return {"messages": [{"role": "user", "content": text}]}


for kind, model in {
        "chat": ChatOpenAI(base_url=f"{QWEN}/v1", api_key=KEY, model="qwen"),
        "responses": ChatOpenAI(base_url=f"{QWEN}/v1", api_key=KEY, model="qwen", use_responses_api=True),
        "messages": ChatAnthropic(base_url=QWEN, api_key=KEY, model="qwen", max_tokens=100)}.items():
    step(f"{kind}: text, streamed")
    whole = model.invoke(question)
    pieces = [p.text for p in model.stream(question)]
    assert "4" in whole.text and "".join(pieces) == whole.text and len(pieces) > 1

    step(f"{kind}: structured output")
    for method in "json_schema", "function_calling":
        is_ada(model.with_structured_output(Person, method=method).invoke(person).model_dump())

    step(f"{kind}: a graph with tools")
    asked_for.clear()
    able = model.bind_tools([weather])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [able.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([weather]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", END)
    said = graph.compile().invoke(user(weather_question), BOUND)["messages"]
    assert "Oslo" in asked_for[0] and said[-1].content == RESULT

    step(f"{kind}: create_agent, streamed")
    asked_for.clear()
    agent = create_agent(model, [weather], system_prompt="Be brief.")
    pieces = []
    with contextlib.suppress(GraphRecursionError):          # a small model may call without end
        for piece in agent.stream(user(weather_question), BOUND, stream_mode="messages"):
            pieces.append(piece)
    assert "Oslo" in asked_for[0] and len(pieces) > 2

    step(f"{kind}: create_agent with structured output")
    for strategy in ProviderStrategy(Report), ToolStrategy(Report):
        agent = create_agent(model, [weather], response_format=strategy)
        with contextlib.suppress(GraphRecursionError):
            report = agent.invoke(user(weather_question), BOUND)["structured_response"]
            assert "Oslo" in report.city, report
