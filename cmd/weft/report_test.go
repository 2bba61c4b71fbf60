package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"weft/train/rundir"
)

// TestReport: the page holds what run.json and metrics.jsonl hold, asks nothing of a network, and a browser
// draws all its curves without an error.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	weft := func(args ...string) {
		t.Helper()
		root, started := newRoot()
		root.SetArgs(args)
		root.SetOut(io.Discard)
		root.SetErr(os.Stderr)
		if status := execute(root, started); status != 0 {
			t.Fatalf("weft %s: status %d", strings.Join(args, " "), status)
		}
	}
	g, runs, page := filepath.Join(dir, "g"), filepath.Join(dir, "runs"), filepath.Join(dir, "page.html")
	weft("generate", "sbm", g, "--vertices", "300", "--degree", "4", "--features", "6", "--classes", "3")
	weft("train", g, "--epochs", "7", "--seeds", "2", "--out", runs)
	weft("report", runs, "--out", page, "--title", `a <title> & "more"`)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	html := string(text)
	if found := regexp.MustCompile(`(src|href)="?(https?:)?//`).FindString(html); found != "" {
		t.Errorf("the page asks for %s", found)
	}
	if !strings.Contains(html, "<h1>a &lt;title&gt; &amp; &#34;more&#34;</h1>") {
		t.Error("the title is not that of --title")
	}
	var charts []chart
	data := regexp.MustCompile(`<script>const curves = (.*);</script>`).FindStringSubmatch(html)
	if data == nil || json.Unmarshal([]byte(data[1]), &charts) != nil {
		t.Fatal("the page has no curves")
	}
	for k := range 2 {
		folder := filepath.Join(runs, "seed-"+strconv.Itoa(k))
		run, _, _, err := rundir.Read(folder)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(html, `test">`+percent(float64(run.Summary.Test))+"<") {
			t.Errorf("run %d: the page lacks the test accuracy", k)
		}
		curve, err := rundir.ReadCurve(folder)
		if err != nil {
			t.Fatal(err)
		}
		losses, tests := charts[0].Series[2*k], charts[1].Series[3*k+2]
		for i, e := range curve {
			if losses.X[i] != e.Epoch || float64(losses.Y[i]) != e.Loss || float64(tests.Y[i]) != 100*e.Test {
				t.Errorf("run %d, epoch %d: loss %v and test accuracy %v, want %v and %v", k, e.Epoch, losses.Y[i], tests.Y[i], e.Loss, 100*e.Test)
			}
		}
	}
	browse(t, page, len(charts), []string{"seed-0", "seed-1", "± "})
}

// browse opens a page in a browser, which must draw so many charts, show the words and find no fault.
func browse(t *testing.T, page string, charts int, words []string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("not opened in a browser: there is no chromium (Debian: chromium)")
	}
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile) // processes of the browser may still write there
	open := func(url string) (dom, said string, err error) {
		browser := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
			"--user-data-dir="+profile, "--virtual-time-budget=2000", "--enable-logging=stderr", "--v=0", "--dump-dom", url)
		var errs strings.Builder
		browser.Stderr = &errs
		out, err := browser.Output()
		return string(out), errs.String(), err
	}
	if _, said, err := open("about:blank"); err != nil {
		t.Skipf("not opened in a browser: chromium does not work here: %v: %s", err, said)
	}
	dom, said, err := open("file://" + page)
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for line := range strings.Lines(said) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the browser's console: %s", line)
		}
	}
	if n := strings.Count(dom, "<canvas"); n != charts {
		t.Errorf("%d charts are drawn of %d", n, charts)
	}
	for _, word := range words {
		if !strings.Contains(dom, word) {
			t.Errorf("the browser does not show %s", word)
		}
	}
}
