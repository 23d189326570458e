// What the demo model can show. Each is a whole request; the model needs no key and no network.

const WEATHER = {
  kind: "local",
  name: "weather",
  description: "The weather of a city, now.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

const TICKET = {
  name: "ticket",
  schema: {
    type: "object",
    properties: {
      label: { type: "string", enum: ["bug", "question", "idea"] },
      urgency: { type: "integer", minimum: 1, maximum: 5 },
      summary: { type: "string" },
    },
    required: ["label", "urgency", "summary"],
    additionalProperties: false,
  },
};

/** Title, what it shows, and the fields of the form. */
export const EXAMPLES = [
  {
    title: "Watch it stream",
    what: "Words as the model says them; every one is on disk before you see it.",
    prompt: "slow 40ms\ntokens 120",
  },
  {
    title: "Think, then use a tool",
    what: "Reasoning, a tool that the server runs, and the answer, in two turns.",
    prompt: "think The user wants the time, so I ask the clock.\ntext Let me look at the clock.\ncall now {\"timezone\": \"Europe/Oslo\"}\nsay That is the time in Oslo.",
    reasoning: "medium",
    tools: [{ kind: "mantyx_plugin", name: "@time/now" }],
  },
  {
    title: "Be the tool yourself",
    what: "A tool of the client: the run waits, at no cost, until you answer.",
    prompt: "call weather {\"city\": \"Oslo\"}\nthen\ncall weather {\"city\": \"Bergen\"}\nsay I know the weather of both cities now.",
    tools: [WEATHER],
  },
  {
    title: "Answer by a schema",
    what: "JSON that is valid by the JSON Schema you give.",
    prompt: "The export button crashes the app, and we demo it tomorrow.",
    schema: TICKET,
  },
  {
    title: "Catch a loop",
    what: "A model that repeats itself is warned, then cut off.",
    prompt: "call now {}\nrepeat",
    tools: [{ kind: "mantyx_plugin", name: "@time/now" }],
  },
  {
    title: "Survive an outage",
    what: "The provider fails twice; the run does not.",
    prompt: "fail 503 2\nsay The provider stumbled twice, and here I am.",
  },
  {
    title: "Cancel it",
    what: "A model that talks for hours. Cancel, and read the receipt.",
    prompt: "slow 100ms\ntokens 100000",
  },
  {
    title: "Kill the server",
    what: "Start this, stop the server in its terminal, start it again: the run goes on here.",
    prompt: "slow 250ms\ntokens 150",
  },
];
