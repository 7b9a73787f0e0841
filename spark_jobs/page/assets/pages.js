// A list that is asked for page by page, newest first, while new entries come in front of it.

const MOST = 1000; // that are shown: what is older can be asked for again

export class Pages {
  /** `name`: of the list in an answer, whose entries have `seq`; `before` leads to the older ones. */
  constructor(name) {
    this.name = name;
    this.forget();
  }

  forget() {
    this.shown = null; // null: nothing was asked for yet
    this.before = null;
    this.life = {};
  }

  /** The newest page has come (again): what has left it stays, if there is no hole between the two. */
  newest(page) {
    const found = page[this.name];
    const last = found.at(-1)?.seq ?? 0;
    const hasMore = this.shown !== null && this.shown.length > found.length;
    if (hasMore && this.shown[0].seq >= last) this.show([...found, ...this.shown.filter((each) => each.seq < last)]);
    else this.show(found, page.before);
  }

  /** Ask for the next older page. Pressed twice, it is there once; and nothing comes of it in another list. */
  async more(ask) {
    const { before, life } = this;
    const page = await ask(before);
    if (life === this.life && before === this.before) this.show([...this.shown, ...page[this.name]], page.before);
  }

  show(entries, before = this.before) {
    this.shown = entries.slice(0, MOST);
    this.before = entries.length > MOST ? this.shown.at(-1).seq : before;
  }
}
