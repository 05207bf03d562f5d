"use strict";
// Makes the page live: /api/v1/events sends the parts of the page that have changed, and each
// replaces what the element of its name has. Elements that stay the same are kept, so focus,
// open details, selections and scrolling stay.
(() => {
	const live = document.getElementById("live");
	const pending = new Map(); // id → HTML that waits until nobody is about to click, and since when
	const folds = JSON.parse(sessionStorage.getItem("folds") || "{}"); // path of details → whether the reader has them open

	// keyOf is what a row is found by when rows have changed places.
	const keyOf = (node) => node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;

	const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

	// own is the first node from one on that is not the refusal of a form, which only this script has made.
	function own(node) {
		while (node?.nodeType === Node.ELEMENT_NODE && node.classList.contains("refused")) node = node.nextSibling;
		return node;
	}

	// pathOf is what details are found by after the page was loaded again.
	function pathOf(details) {
		const path = [];
		for (let up = details; up; up = up.parentElement) path.push(keyOf(up) ?? up.id);
		return path.filter(Boolean).join("/");
	}

	// fold opens and closes details as the reader has left them.
	function fold(root) {
		for (const details of root.querySelectorAll("details")) {
			const open = folds[pathOf(details)];
			if (open !== undefined && details.open !== open) details.open = open;
		}
	}

	// sync makes an element what another is. Whether details are open is the reader's.
	function sync(old, next) {
		if (old.nodeType !== Node.ELEMENT_NODE) {
			if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
			return;
		}
		for (const { name } of [...old.attributes]) {
			if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
		}
		for (const { name, value } of next.attributes) {
			if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
		}
		children(old, next);
	}

	// children makes the children of an element those of another.
	function children(old, next) {
		const keyed = new Map();
		for (const child of old.children) {
			const key = keyOf(child);
			if (key !== null) keyed.set(key, child);
		}
		let at = own(old.firstChild);
		for (const child of [...next.childNodes]) {
			const key = keyOf(child);
			let match = key === null ? at : keyed.get(key);
			if (match && alike(match, child)) {
				if (match === at) at = own(at.nextSibling);
				else old.insertBefore(match, at);
				sync(match, child);
			} else {
				old.insertBefore(child, at);
			}
		}
		while (at) {
			const gone = at;
			at = own(at.nextSibling);
			gone.remove();
		}
	}

	let down = false; // a button of the mouse, or a finger
	let moved = -Infinity; // when the pointer was last moved or pressed
	for (const type of ["pointermove", "pointerdown", "pointerup", "pointercancel"]) {
		document.addEventListener(type, (event) => {
			down = event.buttons > 0;
			moved = performance.now();
		}, { capture: true, passive: true });
	}

	// aimed tells whether somebody may be about to click into a part: rows must not move then.
	function aimed(part) {
		const still = performance.now() - moved;
		return down || still < 800 || still < 5_000 && part.querySelector(":is(a, button, summary):hover") !== null;
	}

	function replace(id, html) {
		const part = document.getElementById(id);
		if (!part) return;
		const since = pending.get(id)?.since ?? performance.now();
		if (aimed(part) && performance.now() - since < 10_000) {
			pending.set(id, { html, since });
			return;
		}
		pending.delete(id);
		const made = document.createElement("template");
		made.innerHTML = html;
		const focused = document.activeElement;
		children(part, made.content);
		fold(part);
		if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
	}

	const now = () => new Date().toISOString().slice(11, 19) + " UTC";
	let seen = live.textContent; // when the last data came

	function say(text, how) {
		live.textContent = text;
		live.className = how;
	}

	// answer says for a while what became of a press of a button.
	const answered = document.getElementById("answer");
	let silence = 0;
	function answer(text) {
		answered.textContent = text;
		clearTimeout(silence);
		silence = setTimeout(() => { answered.textContent = ""; }, 8000);
	}

	// outcome says what became of the try of a site, if that is known within some seconds.
	async function outcome(site) {
		for (let asked = 0; asked < 5; asked++) {
			await new Promise((resolve) => { setTimeout(resolve, 1200); });
			const { breaker } = await (await fetch(new URL("/api/v1/sites/" + encodeURIComponent(site), location.origin))).json();
			if (breaker === "open") return answer(site + " was tried, and failed again");
			if (breaker === "closed") return answer(site + " was tried, and answers again");
		}
	}

	fold(document);
	const sent = sessionStorage.getItem("focus"); // the form after which the page was loaded again
	sessionStorage.removeItem("focus");
	if (sent) document.querySelector(`.chosen form[action="${sent}"] button`)?.focus({ preventScroll: true });
	document.addEventListener("click", (event) => {
		const details = event.target.closest("summary")?.parentElement;
		if (!details) return;
		folds[pathOf(details)] = !details.open; // as it will be
		sessionStorage.setItem("folds", JSON.stringify(folds));
	});

	// refusalOf is why a form was refused, from the page about that.
	async function refusalOf(answer) {
		const page = new DOMParser().parseFromString(await answer.text(), "text/html");
		const faults = [...page.querySelectorAll("main p.bad, main .bad li")].map((fault) => fault.textContent);
		return faults.join("\n") || `abide answers ${answer.status}`;
	}

	// A form is sent without leaving the page: why it was refused stands beside it, and what was entered stays.
	document.addEventListener("submit", async (event) => {
		const form = event.target;
		if (form.method !== "post") return;
		event.preventDefault();
		if (form.ariaBusy) return;
		form.ariaBusy = "true";
		let refused = "";
		try {
			const body = new URLSearchParams(new FormData(form, event.submitter));
			const answer = await fetch(new URL(form.getAttribute("action"), location.origin), { method: "POST", body, redirect: "manual" });
			if (answer.type !== "opaqueredirect") refused = await refusalOf(answer);
		} catch {
			refused = "abide does not answer";
		}
		form.ariaBusy = null;
		for (const old of [form.lastElementChild, form.nextElementSibling]) {
			if (old?.classList.contains("refused")) old.remove();
		}
		if (refused && source.readyState !== EventSource.OPEN) {
			answer("Nothing was changed: " + refused); // beside the form it would be faint, as all is that is old
		} else if (refused) {
			const text = document.createElement("p");
			text.className = "refused bad";
			text.setAttribute("role", "alert");
			text.textContent = "Nothing was changed: " + refused;
			if (form.classList.contains("card")) form.append(text);
			else form.after(text);
		} else if (form.closest(".chosen") && !form.closest("#pause") || source.readyState !== EventSource.OPEN) {
			if (form.closest(".chosen")) sessionStorage.setItem("focus", form.getAttribute("action"));
			location.reload(); // else the part is sent
		} else {
			const button = event.submitter;
			moved = -Infinity; // what the press has changed is shown at once
			answer(button?.dataset.done ?? `${button?.ariaLabel ?? button?.textContent}: done`);
			const tried = form.querySelectorAll("[name=site]");
			if (button?.value === "try" && tried.length === 1) outcome(tried[0].value).catch(() => {}); // a lost connection is told
		}
	});

	// The origin has no user and password, which a URL for events may not have.
	const events = new URL("/api/v1/events", location.origin);
	const site = new URLSearchParams(location.search).get("site");
	if (site) events.searchParams.set("site", site);
	const source = new EventSource(events);
	source.addEventListener("now", () => {
		seen = now();
		document.body.classList.remove("lost");
		if (live.className !== "on") say("live", "on");
	});
	source.addEventListener("error", () => {
		const closed = source.readyState === EventSource.CLOSED;
		say((closed ? "not live: load the page again" : "connection lost, trying again") + "; last seen " + seen, "off");
		document.body.classList.add("lost");
		document.title = "abide: last seen " + seen;
	});
	source.addEventListener("part", (event) => {
		const { id, html } = JSON.parse(event.data);
		replace(id, html);
	});
	setInterval(() => {
		for (const [id, { html }] of [...pending]) replace(id, html);
	}, 250);
})();
