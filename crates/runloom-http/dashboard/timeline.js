// The timeline of a run. Events only append; deltas are joined and written once per frame, so that a log of
// thousands of events needs few elements.

import { h } from "./dom.js";
import { fileList } from "./files.js";
import { count, duration, money } from "./format.js";
import { markdown } from "./markdown.js";
import { ending, note } from "./notes.js";
import { TERMINAL } from "./stream.js";
import { ToolCall } from "./tools.js";

/** So near the end of the page somebody reads along. */
const NEAR_PX = 160;

/** A hidden page draws no frames. */
const HIDDEN_MS = 500;

/** A text that grows. */
class Growing {
  constructor(element) {
    this.node = document.createTextNode("");
    this.waiting = [];
    element.append(this.node);
  }

  add(text) {
    this.waiting.push(text);
  }

  write() {
    if (this.waiting.length === 0) return;
    this.node.appendData(this.waiting.join(""));
    this.waiting = [];
  }

  set(text) {
    this.waiting = [];
    if (this.node.data !== text) this.node.data = text;
  }
}

/** One turn of the model. */
class Turn {
  constructor(number) {
    this.title = h("span", { class: "who" }, `Turn ${number}`);
    this.facts = h("span", { class: "quiet" });
    this.body = h("div", { class: "body" });
    this.element = h("li", { class: "turn live" }, h("header", null, this.title, this.facts), this.body);
    this.complete = false;
  }

  thinking(text) {
    if (!this.thought) {
      const pre = h("div", { class: "said thinking" });
      this.thought = new Growing(pre);
      this.fold = h("details", { class: "thoughts" }, h("summary", null, "Thinking"), pre);
      this.body.prepend(this.fold);
    }
    this.thought.add(text);
  }

  text(text) {
    this.#answer().add(text);
  }

  #answer() {
    if (!this.said) {
      this.box = h("div", { class: "said" });
      this.said = new Growing(this.box);
      if (this.fold) this.fold.after(this.box);
      else this.body.prepend(this.box);
    }
    return this.said;
  }

  write() {
    this.thought?.write();
    this.said?.write();
  }

  /** The turn as it was in the end; the deltas said the same, unless some were lost with a worker. */
  finish(data) {
    this.complete = true;
    this.write();
    if (data.text) this.#render(data.text);
    this.element.classList.remove("live");
    this.title.textContent = `Turn ${data.turn + 1}`;
    const reason = data.finishReason && !["end_turn", "tool_use"].includes(data.finishReason) ? data.finishReason.replaceAll("_", " ") : null;
    const model = typeof data.model === "string" ? data.model : data.model?.id;
    this.facts.textContent = [model, ...figures(data), reason].filter(Boolean).join(" · ");
  }

  /** Markdown becomes elements once the turn is complete; JSON stays as it was written. */
  #render(text) {
    this.#answer().set(text);
    if (!/^\s*[{[]/.test(text)) this.box.replaceChildren(markdown(text));
  }
}

/** What a turn used and how long it took; events of older servers do not tell. */
function figures({ tokens, costUsd, durationMs, attempts }) {
  return [
    tokens && `${count(tokens.inputTokens)} → ${count(tokens.outputTokens)} tokens`,
    costUsd !== undefined && money(costUsd),
    durationMs !== undefined && duration(durationMs),
    attempts > 1 && `${attempts} attempts`,
  ];
}

/** The whole of a run. */
export class Timeline {
  /** `onEnd` hears of the terminal event; `following` keeps the newest in sight for those who read along. */
  constructor(run, { live = true, following = false, onEnd } = {}) {
    this.run = run;
    this.live = live;
    this.following = following;
    this.onEnd = onEnd;
    this.element = h("ol", { class: "timeline", "aria-label": "What happened" });
    this.turns = 0;
    this.calls = new Map();
    this.inputs = new Map();
    this.brought = [];
    this.queue = [];
  }

  /** What the user said, and the files beside it. */
  prompt(text, label, files) {
    this.element.append(h("li", { class: "turn prompt" }, h("header", null, h("span", { class: "who" }, label)),
      text && h("div", { class: "said" }, text), fileList(files)));
    return this;
  }

  /** Takes an event; it is drawn with the next frame. */
  add(event) {
    this.queue.push(event);
    if (this.queue.length > 1) return;
    const draw = () => this.draw();
    if (document.hidden) setTimeout(draw, HIDDEN_MS);
    else requestAnimationFrame(draw);
  }

  /** Draws what has come. */
  draw() {
    const page = document.scrollingElement;
    const reading = this.following && page.scrollHeight - page.scrollTop - window.innerHeight < NEAR_PX;
    const events = this.queue;
    this.queue = [];
    for (const { type, data } of events) this.#apply(type, data);
    this.turn?.write();
    if (reading) page.scrollTop = page.scrollHeight;
  }

  #apply(type, data) {
    switch (type) {
      case "started": return;
      case "assistant_delta": return this.#openTurn().text(data.text);
      case "thinking_delta": return this.#openTurn().thinking(data.text);
      case "assistant_message": return this.#message(data);
      case "turn_restarted": return this.#restart(data);
      case "tool_call": return this.#call(data.toolUseId, data.name, data.input).running();
      case "local_tool_call": return this.#ask(data);
      case "tool_result": return this.#done(this.#call(data.toolUseId, data.name), data.ok, data.result ?? data.summary ?? "");
      case "local_tool_result_in": return this.#answered(data);
      case "approval_requested": return this.#approval(data);
      case "approval_decided": return this.#decided(data);
      case "tool_files": return void this.brought.push(data);
      default:
    }
    if (TERMINAL.has(type)) this.#end(type, data);
    else this.element.append(note(type, data));
  }

  #openTurn() {
    if (!this.turn || this.turn.complete) {
      this.turns += 1;
      this.turn = new Turn(this.turns);
      this.element.append(this.turn.element);
    }
    return this.turn;
  }

  #message(data) {
    for (const call of data.toolCalls ?? []) this.inputs.set(call.id, call);
    this.#openTurn().finish(data);
    this.turns = data.turn + 1;
  }

  #restart(data) {
    const broken = this.turn && !this.turn.complete ? this.turn : null;
    const told = note("turn_restarted", data);
    if (broken) {
      broken.element.replaceWith(told);
      this.turn = null;
      this.turns -= 1;
    } else {
      this.element.append(told);
    }
  }

  /** The call with this id. A guard may answer one that was never made: then its input is in the model's message. */
  #call(id, name, input) {
    let call = this.calls.get(id);
    if (!call) {
      call = new ToolCall(this.run, id, name ?? this.inputs.get(id)?.name ?? "tool");
      this.calls.set(id, call);
      this.#home().append(call.element);
    }
    const given = input ?? this.inputs.get(id)?.input;
    if (given !== undefined) call.input(given);
    return call;
  }

  #home() {
    return (this.turn ?? this.#openTurn()).body;
  }

  #ask(data) {
    const { toolUseId, name, args, kind, ...details } = data;
    const more = Object.keys(details).length > 0 ? details : null;
    this.#call(toolUseId, name, args ?? null).waiting(kind, more, this.live);
  }

  /** Approvals of runs below stand as notes: their calls are on the timelines of those runs. */
  #approval(data) {
    if (data.runId !== this.run) return void this.element.append(note("approval_requested", data));
    this.#call(data.toolUseId, data.name, data.input).pending(data, this.live);
  }

  #decided(data) {
    if (data.runId !== this.run) return void this.element.append(note("approval_decided", data));
    this.#call(data.toolUseId, data.name).decided(data);
  }

  #answered(data) {
    const failed = data.error !== undefined && data.error !== null;
    this.#done(this.#call(data.toolUseId), !failed, failed ? data.error : data.output ?? "");
  }

  /** Files stand before the result that they belong to, under the name of its tool. */
  #done(call, ok, value) {
    const index = this.brought.findIndex((one) => one.name === call.name);
    if (index >= 0) call.files(this.brought.splice(index, 1)[0].files);
    call.done(ok, value);
  }

  #end(type, data) {
    // The run ended between the files and their result.
    this.brought.forEach((one) => this.element.append(note("tool_files", one)));
    this.turn?.write();
    this.turn?.element.classList.remove("live");
    this.calls.forEach((call) => call.closed());
    this.element.append(ending(type, data));
    this.onEnd?.(type, data);
  }
}
