package uitest

import "fmt"

// Faults shows the page on a screen of that width, light or dark, with all its parts open. It returns what a
// person would mind there: parts beyond the edge, broken words, and a contrast below 4.5.
func (b *Browser) Faults(width int, scheme string) (faults []string) {
	b.t.Helper()
	b.Do("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500,
	}, nil)
	b.Do("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}, nil)
	b.Evaluate(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil)
	// The charts follow the width, unless something holds it open, which is a fault.
	b.Evaluate(fmt.Sprintf(`new Promise(done => {
		const fits = c => c.clientWidth > 0 && c.clientWidth <= c.closest("#charts > div, .memory").clientWidth;
		let left = 300;
		const ask = () => left-- == 0 || innerWidth == %d && [...document.querySelectorAll("canvas")].every(fits) ?
			done(0) : setTimeout(ask, 10);
		ask();
	})`, width), nil)
	b.Evaluate(faultsSeen, &faults)
	return faults
}

const faultsSeen = `(() => {
	const faults = [], wide = document.documentElement.scrollWidth;
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	if (wide > innerWidth) faults.push("the page is " + wide + " px wide");
	const drawn = grounds => {
		canvas.clearRect(0, 0, 1, 1);
		for (const ground of grounds) { canvas.fillStyle = ground; canvas.fillRect(0, 0, 1, 1); }
		const shown = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(c => c / 255);
		return shown.map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
	};
	const luminance = c => .2126 * c[0] + .7152 * c[1] + .0722 * c[2] + .05;
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let text; text = texts.nextNode();) {
		const of = text.parentElement;
		if (!text.data.trim() || of.matches("script, noscript, style")) continue;
		const grounds = [];
		for (let e = of; e; e = e.parentElement) grounds.unshift(getComputedStyle(e).backgroundColor);
		const [a, b] = [drawn(grounds), drawn([...grounds, getComputedStyle(of).color])].map(luminance);
		const contrast = Math.max(a / b, b / a);
		if (contrast < 4.5) faults.push("contrast " + contrast.toFixed(2) + ": " + text.data);
		for (const word of text.data.matchAll(/[^\s/_=,.-]+/g)) {
			const range = document.createRange();
			range.setStart(text, word.index);
			range.setEnd(text, word.index + word[0].length);
			const boxes = [...range.getClientRects()].filter(r => r.width > 0);
			if (new Set(boxes.map(r => Math.round(r.top))).size > 1) faults.push("broken: " + word[0]);
		}
		const beyond = of.getBoundingClientRect().right > innerWidth + 1;
		if (beyond && !of.closest(".wide, .legend")) faults.push("beyond the edge: " + text.data);
	}
	return [...new Set(faults)];
})()`
