package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/cmd/weft/internal/ui"
	"weft/cmd/weft/internal/ui/uitest"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/metric"
	"weft/train/rundir"
)

// TestReport: the page holds what run.json and metrics.jsonl hold, asks nothing of a network, and a browser
// draws all its charts without an error, and shows what profile.json holds.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	weft := func(args ...string) { runWeft(t, args...) }
	g, runs, page := filepath.Join(dir, "g"), filepath.Join(dir, "runs"), filepath.Join(dir, "page.html")
	weft("generate", "sbm", g, "--vertices", "300", "--degree", "4", "--features", "6", "--classes", "3")
	weft("train", g, "--epochs", "7", "--seeds", "2", "--parallel", "graph=2", "--out", runs)
	weft("report", runs, "--out", page, "--title", `a <title> & "more"`)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	html := string(text)
	assert.Equal(t, "", regexp.MustCompile(`(src|href)="?(https?:)?//`).FindString(html), "the page asks for")
	assert.Contains(t, html, "<h1>a &lt;title&gt; &amp; &#34;more&#34;</h1>",
		"the title is not that of --title")
	var charts []struct {
		Series []struct {
			X []float64
			Y []metric.Number
		}
	}
	data := regexp.MustCompile(`<script>const curves = (.*);</script>`).FindStringSubmatch(html)
	if data == nil || json.Unmarshal([]byte(data[1]), &charts) != nil {
		t.Fatal("the page has no curves")
	}
	folders := []string{filepath.Join(runs, "seed-0"), filepath.Join(runs, "seed-1")}
	slices.SortStableFunc(folders, func(a, b string) int { // the best by validation comes first
		first, _, _, err := rundir.Read(a)
		require.NoError(t, err)
		second, _, _, err := rundir.Read(b)
		require.NoError(t, err)
		return cmp.Compare(second.Summary.Val, first.Summary.Val)
	})
	for k, folder := range folders {
		run, _, _, err := rundir.Read(folder)
		require.NoError(t, err)
		assert.Contains(t, html, `test">`+ui.Percent(float64(run.Summary.Test))+"<",
			"run %d: the page lacks the test accuracy", k)
		curve, err := rundir.ReadCurve(folder)
		require.NoError(t, err)
		losses, tests := charts[0].Series[2*k], charts[1].Series[3*k+2]
		for i, e := range curve {
			loss, test := float64(losses.Y[i]), float64(tests.Y[i])
			if losses.X[i] != float64(e.Epoch) || math.Abs(loss-e.Loss) > 1e-5*e.Loss ||
				math.Abs(test-100*e.Test) > 1e-3*e.Test {
				t.Errorf("run %d, epoch %d: loss %v and test accuracy %v, want %v and %v", k, e.Epoch,
					losses.Y[i], tests.Y[i], e.Loss, 100*e.Test)
			}
		}
	}
	b := uitest.NewBrowser(t)
	b.Open("file://" + page)
	b.Evaluate(
		`[...document.querySelectorAll("details.run")].filter(run => run.open = true).length`,
		new(int),
	)
	b.Check(len(charts)+len(folders), []string{
		"seed-0", "seed-1", "± ", "epochs 7 parallel graph=2", "learning rate: 0.01, in all epochs",
	})
	var shown []string // by the legends, without a pointer
	b.Evaluate(
		`[...document.querySelectorAll("#charts .legend")].map(l => l.innerText.match(/\d/) ? "" : l.innerText)`,
		&shown,
	)
	assert.Equal(t, make([]string, len(charts)), shown, "legends without numbers")
	b.Evaluate(
		`[charts.querySelector(".legend th"), charts.querySelector(".legend .name + td")].map(v => v.innerText)`,
		&shown,
	)
	assert.Equal(
		t,
		[]string{"epoch 7", fmt.Sprintf("%.5g", charts[0].Series[0].Y[6])},
		shown,
		"the last epoch, and its loss",
	)
	var left int
	b.Evaluate(
		`document.querySelector("details details .settings").textContent.includes("hidden 64") ? 1 : 0`,
		&left,
	)
	assert.Equal(t, 1, left, "the settings at their defaults")
	for k, folder := range folders {
		checkProfileOf(t, b, k, folder)
	}
}

// runWeft runs a command that must work.
func runWeft(t *testing.T, args ...string) {
	t.Helper()
	root, started := newRoot()
	root.SetArgs(args)
	root.SetOut(io.Discard)
	root.SetErr(os.Stderr)
	require.Equal(t, 0, execute(root, started), "weft %s: status", strings.Join(args, " "))
}

// TestReportOfStrangeNames: names of runs, stores and classes are text, whatever they hold. On a narrow
// screen the page has no more than its width, and on a dark one it is dark.
func TestReportOfStrangeNames(t *testing.T) {
	dir := t.TempDir()
	const class, run = "<script>fault()</script>", "<img src=x onerror=fault()>"
	long := strings.Repeat("a-name-without-an-end-", 8)
	var edges, labels strings.Builder
	for v := range 40 {
		fmt.Fprintf(&edges, "%d,%d\n", v, (v*7+1)%40)
		fmt.Fprintln(&labels, []string{class, "other"}[v%2])
	}
	e, y, g, page := filepath.Join(dir, "e.csv"), filepath.Join(dir, "y.csv"), filepath.Join(dir, "<b>g"),
		filepath.Join(dir, "page.html")
	require.NoError(t, os.WriteFile(e, []byte(edges.String()), 0o600))
	require.NoError(t, os.WriteFile(y, []byte(labels.String()), 0o600))
	runWeft(t, "import", "edges", e, g, "--labels", y, "--random-features", "3", "--split", "random:50/20/30")
	runWeft(t, "train", g, "--epochs", "6", "--eval-every", "3", "--out", filepath.Join(dir, "runs", run))
	runWeft(t, "train", g, "--epochs", "2", "--parallel", "graph=2", "--out",
		filepath.Join(dir, "runs", long))
	runWeft(t, "report", filepath.Join(dir, "runs"), filepath.Join(dir, "runs", run), "--out", page)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	if strings.Contains(string(text), "ZgotmplZ") {
		t.Error("the template refused a value")
	}
	var charts []struct {
		Series []struct {
			X []float64
			Y []metric.Number
		}
	}
	data := regexp.MustCompile(`<script>const curves = (.*);</script>`).FindSubmatch(text)
	if data == nil || json.Unmarshal(data[1], &charts) != nil ||
		!slices.Equal(charts[0].Series[1].X, []float64{3, 6}) {
		t.Errorf("validation losses, which stand in every third epoch: %s", data)
	}
	b := uitest.NewBrowser(t)
	b.Open("file://" + page)
	b.Evaluate(
		`[...document.querySelectorAll("details.run")].filter(run => run.open = true).length`,
		new(int),
	)
	b.Do("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil)
	var beyond int
	b.Evaluate(`runs.scrollWidth - runs.parentElement.clientWidth`, &beyond)
	if beyond > 0 {
		t.Errorf("at 1280 px the table of runs is %d px too wide", beyond)
	}
	b.Do("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": 360, "height": 640, "deviceScaleFactor": 1, "mobile": true}, nil)
	b.Until("charts.querySelector('canvas').clientWidth < 360")
	b.Do("Emulation.setEmulatedMedia",
		map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}},
		nil)
	b.Check(len(charts)+2, []string{class, run, long})
	var rows, strange, width int
	var ground string
	b.Evaluate(`document.querySelectorAll("#runs tr").length - 1`, &rows)
	b.Evaluate(`document.querySelectorAll("body img, body b, section script").length`, &strange)
	b.Evaluate("document.documentElement.scrollWidth", &width)
	b.Evaluate("getComputedStyle(document.body).backgroundColor", &ground)
	var cut, told int
	b.Evaluate(`[...document.querySelectorAll(".wide")].filter(t => t.scrollWidth > t.clientWidth).length`,
		&cut)
	b.Evaluate(
		`[...document.querySelectorAll(".wide.after + .scrolls")].filter(h => h.offsetHeight > 0).length`,
		&told,
	)
	if cut == 0 || told != cut {
		t.Errorf("%d tables are cut, and %d say so", cut, told)
	}
	if rows != 2 || strange != 0 || width > 360 || ground != "rgb(13, 17, 23)" {
		t.Errorf("%d runs, %d strange elements, %d columns, ground %s", rows, strange, width, ground)
	}
	var heads []string
	b.Evaluate(`[...document.querySelectorAll("section .heat")[0].rows[0].cells].map(c => c.innerText)`,
		&heads)
	assert.Equal(t, []string{"", class, "other"}, heads, "the confusion matrix has the columns")
	// The words at the axes are light, beside the curves
	b.Until(`(() => {
		const canvas = charts.querySelector("canvas"), d = canvas.getContext("2d").getImageData(0, 0, 55, canvas.height).data;
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200 && Math.min(d[i], d[i + 1], d[i + 2]) > 215) return true;
		return false;
	})()`)
}

// checkProfileOf compares what the browser shows of the profile of a run, number k on the page, with its
// files.
func checkProfileOf(t *testing.T, b *uitest.Browser, k int, folder string) {
	t.Helper()
	run, _, _, err := rundir.Read(folder)
	require.NoError(t, err)
	p, err := rundir.ReadProfile(folder)
	require.NoError(t, err)
	// The texts of the cells of a table, without its headings, by the heading above it
	table := func(heading string) (cells [][]string) {
		b.Evaluate(
			fmt.Sprintf(
				`[...document.querySelectorAll("section")[%d].querySelectorAll("h3")].filter(h => h.innerText.startsWith(%q)).flatMap(h => {
			while (!h.querySelector("table")) h = h.nextElementSibling;
			return [...h.querySelectorAll("tr")].slice(1).map(r => [...r.querySelectorAll("td")].map(c => c.innerText));
		})`,
				k,
				heading,
			), &cells)
		return cells
	}
	sent := table("Sent from worker")
	require.Len(t, sent, len(p.SentTo)+1, "bytes between workers")
	for from, row := range p.SentTo {
		for to, bytes := range row {
			if want := ui.Megabytes(bytes); from != to && sent[from][to] != want {
				t.Errorf("worker %d to worker %d: %s, want %s", from, to, sent[from][to], want)
			}
		}
		assert.Equal(t, ui.Megabytes(run.Summary.SentBytes[from]), sent[from][len(row)], "worker %d sent",
			from)
	}
	layers := table("Where the time")
	require.Len(t, layers, len(p.Layers)+1, "times")
	for i, name := range p.Layers {
		forward := 0.
		for _, w := range p.Workers {
			forward += w.Forward[i] / float64(len(p.Workers))
		}
		assert.Equal(t, name, layers[i][0], "layer: %q forward", layers[i])
		assert.Equal(t, ui.Brief(forward), layers[i][1], "layer: %q forward", layers[i])
	}
	peaks := table("Memory at the peak")
	for worker, bytes := range run.Summary.PeakTensorBytes {
		assert.Equal(t, ui.Megabytes(bytes), peaks[worker][len(peaks[worker])-1], "worker %d: a peak", worker)
	}
	var most int64
	b.Evaluate(
		fmt.Sprintf(
			`Math.max(...memory[%d].x.map((x, i) => memory[%[1]d].series.reduce((sum, s) => s.name == "graph" ? sum : sum + s.bytes[i], 0)))`,
			k,
		), &most)
	assert.Equal(t, slices.Max(run.Summary.PeakTensorBytes), most, "the curve of memory reaches")
}
