// Files beside words: what a message or a tool brought, and the choice of some for a run.

import { button, field, h, problem, show } from "./dom.js";
import { size } from "./format.js";

/** What the server takes for one message. */
const MOST_FILES = 20;
const MOST_BYTES = 5 * 1024 * 1024;

/** Names, types and sizes, as far as they are known; nothing for no files. An address is shown and leads nowhere. */
export function fileList(files, action) {
  if (!files?.length) return null;
  const item = (file, index) => h("li", null,
    h("code", null, file.filename ?? file.url ?? "file"),
    ` ${[file.mimeType, size(file.size ?? file.sizeBytes), file.filename && file.url].filter(Boolean).join(", ")} `,
    action?.(file, index));
  return h("ul", { class: "files", "aria-label": "Files" }, files.map(item));
}

/** Files that will go with a prompt. They are read when they are chosen: what is sent is what was there then. */
export class FileField {
  /** `files` are attachments of a draft; `onChange` hears when there are others. */
  constructor(files, onChange) {
    this.files = files ?? [];
    this.onChange = onChange;
    this.reading = false;
    this.list = h("div", null);
    this.trouble = h("div", null);
    this.input = h("input", { type: "file", multiple: true, onchange: () => this.#take([...this.input.files]) });
    this.element = h("div", null, field("Files", this.input), this.list, this.trouble);
    this.#draw();
  }

  async #take(chosen) {
    // The list below says what was taken; the same file can be chosen again.
    this.input.value = "";
    show(this.trouble);
    const bytes = [...this.files, ...chosen].reduce((sum, file) => sum + file.size, 0);
    if (this.files.length + chosen.length > MOST_FILES || bytes > MOST_BYTES) {
      show(this.trouble, problem({ message: `A message takes ${MOST_FILES} files, and ${size(MOST_BYTES)} in all.` }));
      return;
    }
    this.reading = true;
    try {
      this.set([...this.files, ...(await Promise.all(chosen.map(read)))]);
    } catch (error) {
      show(this.trouble, problem({ message: `A file cannot be read. ${error.message}` }));
    }
    this.reading = false;
  }

  set(files) {
    this.files = files;
    this.#draw();
    this.onChange();
  }

  /** The attachments of a request. The server counts the bytes itself. */
  attachments() {
    if (this.reading) throw new Error("The files are still being read.");
    return this.files.map(({ size: _, ...file }) => file);
  }

  #draw() {
    const without = (gone) => this.set(this.files.filter((_, index) => index !== gone));
    show(this.list, fileList(this.files, (file, index) => button("Remove", () => without(index), { class: "plain", "aria-label": `Remove ${file.filename}` })));
  }
}

/** A file as an attachment. What the browser has no type for may be text: the server looks. */
function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(reader.error);
    reader.onload = () => resolve({
      type: "input_file", filename: file.name, mimeType: file.type || "text/plain", size: file.size,
      data: reader.result.slice(reader.result.indexOf(",") + 1),
    });
    reader.readAsDataURL(file);
  });
}
