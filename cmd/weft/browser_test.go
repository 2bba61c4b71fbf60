package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"weft/internal/require"
)

// browser is a headless Chromium, which takes commands of the DevTools protocol from a pipe
// (chromedevtools.github.io/devtools-protocol): JSON that a zero byte ends.
type browser struct {
	t       *testing.T
	to      io.Writer
	from    *bufio.Reader
	session string // of the page
	sent    int
	loaded  bool
	faults  []string // that the page's console told
}

// newBrowser starts a browser. Where there is none, or it does not work, the test is skipped.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("not opened in a browser: there is no chromium (Debian: chromium)")
	}
	profile, err := os.MkdirTemp("", "chromium")
	require.NoError(t, err)
	commands, to, err := os.Pipe()
	require.NoError(t, err)
	from, answers, err := os.Pipe()
	require.NoError(t, err)
	process := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--remote-debugging-pipe",
		"--enable-precise-memory-info", "--user-data-dir="+profile, "about:blank")
	process.ExtraFiles = []*os.File{commands, answers} // file descriptors 3 and 4
	if err := process.Start(); err != nil {
		t.Skipf("not opened in a browser: chromium does not work here: %v", err)
	}
	require.NoError(t, errors.Join(commands.Close(), answers.Close()))
	b := &browser{t: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	t.Cleanup(func() {
		_ = to.Close() // ends it
		_, _ = io.Copy(io.Discard, from)
		_ = process.Wait()
		_ = from.Close()
		_ = os.RemoveAll(profile) // its processes may still write there
	})
	if _, err := b.command("Browser.getVersion", nil); err != nil {
		t.Skipf("not opened in a browser: chromium does not work here: %v", err)
	}
	return b
}

// command sends a command, and returns its result. Events that come before it are told to the browser.
func (b *browser) command(method string, params any) (result json.RawMessage, err error) {
	b.sent++
	message := map[string]any{"id": b.sent, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return nil, err
	}
	for {
		text, err := b.from.ReadBytes(0)
		if err != nil {
			return nil, err
		}
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(text[:len(text)-1], &answer); err != nil {
			return nil, err
		}
		switch {
		case answer.Method != "":
			b.event(answer.Method, answer.Params)
		case answer.ID != b.sent:
		case answer.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, answer.Error.Message)
		default:
			return answer.Result, nil
		}
	}
}

func (b *browser) event(method string, params json.RawMessage) {
	switch method {
	case "Page.loadEventFired":
		b.loaded = true
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		b.faults = append(b.faults, string(params))
	}
}

// do is command for one that must work.
func (b *browser) do(method string, params, result any) {
	b.t.Helper()
	text, err := b.command(method, params)
	if err == nil && result != nil {
		err = json.Unmarshal(text, result)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// open opens a page, and waits until it is loaded.
func (b *browser) open(url string) {
	b.t.Helper()
	var target struct{ TargetID string }
	b.do("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.do(domain+".enable", nil, nil)
	}
	b.loaded = false
	b.do("Page.navigate", map[string]any{"url": url}, nil)
	for !b.loaded {
		b.do("Runtime.evaluate", map[string]any{"expression": "0"}, nil)
	}
}

// evaluate computes a JavaScript expression, which may be a promise, on the page.
func (b *browser) evaluate(expression string, value any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.do("Runtime.evaluate", map[string]any{
		"expression": expression, "returnByValue": true,
		"awaitPromise": true,
	}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	if value != nil {
		if err := json.Unmarshal(answer.Result.Value, value); err != nil {
			b.t.Fatalf("%s: %s: %v", expression, answer.Result.Value, err)
		}
	}
}

// until waits until a JavaScript condition is true on the page.
func (b *browser) until(condition string) {
	b.t.Helper()
	b.evaluate("new Promise(done => { const ask = () => "+condition+" ? done(0) : setTimeout(ask, "+
		"10); ask(); })", nil)
}

// heap is the memory of the page's JavaScript in bytes, without garbage.
func (b *browser) heap() int64 {
	b.t.Helper()
	var use struct{ UsedSize, EmbedderHeapUsedSize, BackingStorageSize float64 }
	b.do("HeapProfiler.collectGarbage", nil, nil)
	b.do("Runtime.getHeapUsage", nil, &use)
	return int64(use.UsedSize + use.EmbedderHeapUsedSize + use.BackingStorageSize)
}

// check fails the test if the page's console told of a fault, or if the page does not show so many charts and
// the words.
func (b *browser) check(charts int, words []string) {
	b.t.Helper()
	for _, fault := range b.faults {
		b.t.Errorf("the browser's console: %s", fault)
	}
	var drawn int
	b.evaluate(`document.querySelectorAll("canvas").length`, &drawn)
	if drawn != charts {
		b.t.Errorf("%d charts are drawn of %d", drawn, charts)
	}
	var text string
	b.evaluate("document.body.innerText", &text)
	for _, word := range words {
		if !strings.Contains(text, word) {
			b.t.Errorf("the browser does not show %s", word)
		}
	}
}
