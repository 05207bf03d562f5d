"use strict";
// Makes the page live: /api/v1/events sends the parts of the page that have changed, and each
// replaces what the element of its name has. Elements that stay the same are kept, so focus,
// open details, selections and scrolling stay.
(() => {
	const live = document.getElementById("live");
	const pending = new Map(); // id → HTML that waits until a press of the mouse is over

	// keyOf is what a row is found by when rows have changed places.
	const keyOf = (node) => node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;

	const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

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
		let at = old.firstChild;
		for (const child of [...next.childNodes]) {
			const key = keyOf(child);
			let match = key === null ? at : keyed.get(key);
			if (match && alike(match, child)) {
				if (match === at) at = at.nextSibling;
				else old.insertBefore(match, at);
				sync(match, child);
			} else {
				old.insertBefore(child, at);
			}
		}
		while (at) {
			const gone = at;
			at = at.nextSibling;
			gone.remove();
		}
	}

	function replace(id, html) {
		const part = document.getElementById(id);
		if (!part) return;
		if (part.matches(":active")) { // a button is being pressed
			pending.set(id, html);
			return;
		}
		pending.delete(id);
		const made = document.createElement("template");
		made.innerHTML = html;
		const focused = document.activeElement;
		children(part, made.content);
		if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
	}

	const now = () => new Date().toISOString().slice(11, 19) + " UTC";
	let seen = live.textContent; // when the last data came

	function say(text, how) {
		live.textContent = text;
		live.className = how;
	}

	// A form loads the page again: the focus returns to the button of its row.
	document.addEventListener("submit", (event) => {
		const row = event.target.closest("tr[data-key]");
		if (row) sessionStorage.setItem("row", JSON.stringify([row.closest("div[id]").id, keyOf(row)]));
	});
	const [part, key] = JSON.parse(sessionStorage.getItem("row") || "[]");
	sessionStorage.removeItem("row");
	addEventListener("load", () => setTimeout(() => { // before, going to the fragment of the address takes the focus away
		const row = part && document.querySelector(`#${part} tr[data-key="${CSS.escape(key)}"]`);
		for (let up = row?.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
		row?.querySelector("button")?.focus({ preventScroll: true });
	}));

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
		for (const [waiting, text] of [...pending]) replace(waiting, text);
	});
})();
