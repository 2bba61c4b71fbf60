package uitest

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

// Browser is a headless Chromium, which takes commands of the DevTools protocol
// (chromedevtools.github.io/devtools-protocol) from a pipe: JSON that ends with a zero byte.
type Browser struct {
	t       *testing.T
	to      io.Writer
	from    *bufio.Reader
	session string // of the page
	sent    int
	loaded  bool
	faults  []string // faults that the page's console reported
}

// NewBrowser starts a browser. If there is none, or it does not work, it skips the test.
func NewBrowser(t *testing.T) *Browser {
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
	b := &Browser{t: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	t.Cleanup(func() {
		_ = to.Close() // ends it
		_, _ = io.Copy(io.Discard, from)
		_ = process.Wait()
		_ = from.Close()
		_ = os.RemoveAll(profile) // the browser's processes may still write there
	})
	if _, err := b.command("Browser.getVersion", nil); err != nil {
		t.Skipf("not opened in a browser: chromium does not work here: %v", err)
	}
	return b
}

// command sends a command, and returns its result. Events that come before it go to the browser.
func (b *Browser) command(method string, params any) (result json.RawMessage, err error) {
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

func (b *Browser) event(method string, params json.RawMessage) {
	switch method {
	case "Page.loadEventFired":
		b.loaded = true
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		b.faults = append(b.faults, string(params))
	}
}

// Do is command for a command that must work.
func (b *Browser) Do(method string, params, result any) {
	b.t.Helper()
	text, err := b.command(method, params)
	if err == nil && result != nil {
		err = json.Unmarshal(text, result)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// Open opens a page, and waits until it is loaded.
func (b *Browser) Open(url string) {
	b.t.Helper()
	var target struct{ TargetID string }
	b.Do("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.Do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.Do(domain+".enable", nil, nil)
	}
	b.loaded = false
	b.Do("Page.navigate", map[string]any{"url": url}, nil)
	for !b.loaded {
		b.Do("Runtime.evaluate", map[string]any{"expression": "0"}, nil)
	}
}

// Evaluate computes a JavaScript expression, which may be a promise, on the page.
func (b *Browser) Evaluate(expression string, value any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.Do("Runtime.evaluate", map[string]any{
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

// Until waits until a JavaScript condition is true on the page.
func (b *Browser) Until(condition string) {
	b.t.Helper()
	b.Evaluate("new Promise(done => { const ask = () => "+condition+" ? done(0) : setTimeout(ask, "+
		"10); ask(); })", nil)
}

// Heap is the memory of the page's JavaScript in bytes, without garbage.
func (b *Browser) Heap() int64 {
	b.t.Helper()
	var use struct{ UsedSize, EmbedderHeapUsedSize, BackingStorageSize float64 }
	b.Do("HeapProfiler.collectGarbage", nil, nil)
	b.Do("Runtime.getHeapUsage", nil, &use)
	return int64(use.UsedSize + use.EmbedderHeapUsedSize + use.BackingStorageSize)
}

// Check fails the test if the page's console reported a fault, or if the page does not show so many charts
// and the words.
func (b *Browser) Check(charts int, words []string) {
	b.t.Helper()
	for _, fault := range b.faults {
		b.t.Errorf("the browser's console: %s", fault)
	}
	var drawn int
	b.Evaluate(`document.querySelectorAll("canvas").length`, &drawn)
	if drawn != charts {
		b.t.Errorf("%d charts are drawn of %d", drawn, charts)
	}
	var text string
	b.Evaluate("document.body.innerText", &text)
	for _, word := range words {
		if !strings.Contains(text, word) {
			b.t.Errorf("the browser does not show %s", word)
		}
	}
}
