package training

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weft/cmd/weft/internal/ui/uitest"
	"weft/internal/assert"
	"weft/internal/gate"
	"weft/internal/require"
	"weft/train"
	"weft/train/metric"
	"weft/train/setting"
)

// begunLive is the page of a run that begins with these options, until the test ends.
func begunLive(t *testing.T, run string) *live {
	t.Helper()
	l, err := newLive(0)
	require.NoError(t, err)
	t.Cleanup(l.close)
	l.begin(run)
	o := setting.Defaults()
	o.Hidden = 31
	l.tell(&o, func(train.Epoch) string { return "2 s left" })
	return l
}

// TestLive: a browser that joins late gets the curve, thinned, and what is new. One that never reads holds up
// neither the run nor the others. The page is for this machine alone.
func TestLive(t *testing.T) {
	l := begunLive(t, "runs/one")
	stuck, err := net.Dial("tcp", l.gate.Addr().String())
	require.NoError(t, err)
	defer stuck.Close()
	fmt.Fprint(stuck, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	const epochs = 10_000
	epoch := func(k int) train.Epoch {
		return train.Epoch{
			Epoch: k, Epochs: epochs, Loss: 1 / float64(k), Metric: "accuracy",
			Evaluated: true, Scores: metric.Scores{Val: .5}, Seconds: .25,
		}
	}
	for k := 1; k < epochs; k++ {
		l.epoch(epoch(k))
	}
	if n := len(l.points); n > watchPoints || n < watchPoints/4 {
		t.Errorf("%d epochs are kept", n)
	}
	response, err := http.Get(l.url() + "events")
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewReaderSize(response.Body, 1<<20)
	next := func() (kind, data string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			if value, is := strings.CutPrefix(line, "event: "); is {
				kind = strings.TrimSpace(value)
			}
			if value, is := strings.CutPrefix(line, "data: "); is {
				return kind, strings.TrimSpace(value)
			}
		}
	}
	kind, data := next()
	assert.Equal(t, "begin", kind)
	assert.Equal(t, `{"name":"runs/one","metric":"accuracy","share":true,"about":"--model sage --hidden 31"}`, data)
	last := 0
	for last < epochs {
		kind, data := next()
		var sent struct {
			Points []struct {
				Epoch     int
				Loss, Val float64
			}
			Status string
		}
		if err := json.Unmarshal([]byte(data), &sent); err != nil || kind != "epochs" {
			t.Fatalf("%s: %v", kind, err)
		}
		if last == 0 {
			l.epoch(epoch(epochs))
			l.end("all is done")
		}
		for _, p := range sent.Points {
			if p.Epoch <= last || p.Loss != 1/float64(p.Epoch) || p.Val != .5 {
				t.Fatalf("after epoch %d: %+v", last, p)
			}
			last = p.Epoch
		}
		if want := "s left; best epoch 1, accuracy validation 50.00 %  test 0.00 %"; !strings.HasSuffix(
			sent.Status, want) {
			t.Fatalf("status %q, want %q", sent.Status, want)
		}
	}
	if kind, data := next(); kind != "end" || data != `"all is done"` {
		t.Errorf("%s: %s", kind, data)
	}
	get := func(host string) (int, string) {
		request, err := http.NewRequest(http.MethodGet, l.url(), http.NoBody)
		require.NoError(t, err)
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	status, text := get("localhost:80")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, "new EventSource(")
	if status, _ := get("elsewhere.example"); status != http.StatusForbidden {
		t.Errorf("another host: status %d", status)
	}
	_, err = newLive(l.gate.Addr().(*net.TCPAddr).Port)
	assert.ErrorContains(t, err, "name another port", "a port in use")
}

// TestReadersWith: a page takes a tenth of the files that a process may open, and a reader at least.
func TestReadersWith(t *testing.T) {
	for files, want := range map[uint64]int{
		16: 2, 28: 2, 64: 5, 239: 15, 240: 16, 1024: 16,
		math.MaxUint64: 16,
	} {
		assert.Equal(t, want, readersWith(files), "%d files", files)
	}
}

// TestLiveReaders: so many browsers read, and the next is told that there is no room until one has left, also
// beside connections that ask nothing. What fails is reported once, in one line.
func TestLiveReaders(t *testing.T) {
	l, err := newLive(0)
	require.NoError(t, err)
	defer l.close()
	l.hold = 0
	l.begin("runs/one")
	l.epoch(train.Epoch{Epoch: 1, Epochs: 2, Metric: "accuracy"})
	read := func() (*http.Response, string) {
		t.Helper()
		response, err := http.Get(l.url() + "events")
		require.NoError(t, err)
		first, err := bufio.NewReader(response.Body).ReadString('\n')
		require.NoError(t, err)
		return response, strings.TrimSpace(first)
	}
	var readers []*http.Response
	defer func() {
		for _, r := range readers {
			_ = r.Body.Close()
		}
	}()
	for k := range watchReaders {
		r, first := read()
		if readers = append(readers, r); r.StatusCode != http.StatusOK || first != "event: begin" {
			t.Fatalf("reader %d: status %d, %q", k+1, r.StatusCode, first)
		}
	}
	for range 3 * watchReaders {
		r, first := read()
		_ = r.Body.Close()
		require.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
		require.Equal(t, "16 browsers read this page, and there is room for no more: close one", first)
	}
	_ = readers[0].Body.Close()
	for status := 0; status != http.StatusOK; { // as soon as the page sees that one has left
		r, _ := read()
		if status = r.StatusCode; status == http.StatusOK {
			readers[0] = r
		} else {
			_ = r.Body.Close()
		}
	}
	var idle []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", l.gate.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		idle = append(idle, c)
	}
	l.epoch(train.Epoch{Epoch: 2, Epochs: 2, Metric: "accuracy"})
	for _, c := range idle {
		_ = c.Close()
	}
	if r, err := http.Get(l.url()); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("after connections that asked nothing: %v", err)
	} else {
		_ = r.Body.Close()
	}
	var warnings []string
	l.server.ErrorLog.Print("before the run")
	l.reportTo(func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) })
	for range 2 {
		l.server.ErrorLog.Print("accept4: too many open files\nin its second line")
	}
	assert.Equal(t, []string{"the live page: accept4: too many open files; the run goes on"}, warnings,
		"warnings")
}

// connections is a listener of pipes.
type connections chan net.Conn

func (c connections) Accept() (net.Conn, error) {
	conn, open := <-c
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (c connections) Close() error { close(c); return nil }
func (connections) Addr() net.Addr { return &net.TCPAddr{} }

// TestLiveBesideHalfSent: three thousand clients that send half a request each, and wait, hold up a browser
// by no more than a second of the page's own clock.
func TestLiveBesideHalfSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := make(connections)
		l := liveOn(clients, 1<<20)
		began := time.Now()
		for range 3000 {
			here, there := net.Pipe()
			clients <- there
			go func() {
				// the page may close it at any time
				_, _ = io.WriteString(here, "GET / HTTP/1.1\r\nHost: loc")
				_, _ = io.ReadAll(here)
			}()
		}
		browser, there := net.Pipe()
		clients <- there
		_, err := io.WriteString(browser, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		status, err := bufio.NewReader(browser).ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "HTTP/1.1 200 OK\r\n", status)
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("the browser waited %s", waited)
		}
		if n := l.gate.Open(); n > gate.Most {
			t.Errorf("%d connections", n)
		}
		l.close()
	})
}

// TestLiveInABrowser: the page shows a run of many epochs, with no more memory than one of few, also when
// several runs follow each other.
func TestLiveInABrowser(t *testing.T) {
	const epochs, most = 10_000, 50e6
	b := uitest.NewBrowser(t)
	l, err := newLive(0)
	require.NoError(t, err)
	defer l.close()
	l.begin("runs/one")
	b.Open(l.url())
	for run := range 3 {
		if run > 0 {
			l.begin(fmt.Sprintf("runs/%d", run))
		}
		for k := 1; k <= epochs; k++ {
			l.epoch(train.Epoch{
				Epoch: k, Epochs: epochs, Loss: 1 / float64(k), LR: .01, Metric: "accuracy", Evaluated: true,
				Scores: metric.Scores{Train: .7, Val: .5, Test: .6, ValLoss: 1.5}, Seconds: .25,
				LiveBytes: int64(k), PeakBytes: int64(k),
			})
			if k%(epochs/4) == 0 { // the browser joins, or follows
				b.Until(fmt.Sprintf("points && points.length > 0 && points.at(-1).epoch == %d", k))
			}
		}
		b.Until(`document.getElementById("status").textContent == "epoch 10,000 of 10,000"`)
		heap := b.Heap()
		t.Logf("run %d: %.1f MB in the browser", run, float64(heap)/1e6)
		if heap > most {
			t.Errorf("run %d: the page takes %d bytes", run, heap)
		}
		b.Check(4, []string{"accuracy", "seconds of an epoch"})
		l.end("it has ended") // the browser hears it, and waits for the next run
		b.Until(`document.getElementById("status").textContent == "it has ended"`)
	}
}

// TestLiveKeepsEvaluations: where few epochs are evaluated, a long curve loses none of these while there is
// room, in the process and in the browser, and a run without an epoch tells how it ended.
func TestLiveKeepsEvaluations(t *testing.T) {
	const epochs, evaluated = 10_000, 25
	l, err := newLive(0)
	require.NoError(t, err)
	defer l.close()
	l.begin("runs/one")
	add := func() {
		for k := 1; k <= epochs; k++ {
			l.epoch(train.Epoch{
				Epoch: k, Epochs: epochs, Loss: 1, Metric: "accuracy",
				Evaluated: k%evaluated == 0, Scores: metric.Scores{Val: .5}, Seconds: .25,
			})
		}
	}
	add()
	kept := 0
	for _, e := range l.points {
		if e.Evaluated {
			kept++
		}
	}
	if kept != epochs/evaluated || len(l.points) > watchPoints {
		t.Errorf("%d of %d evaluations are kept, in %d points", kept, epochs/evaluated, len(l.points))
	}
	b := uitest.NewBrowser(t)
	l.begin("runs/other")
	b.Open(l.url())
	add()
	b.Until(fmt.Sprintf("points && points.length > 0 && points.at(-1).epoch == %d", epochs))
	b.Evaluate("points.filter(p => p.val !== undefined).length", &kept)
	if kept < epochs/evaluated {
		t.Errorf("the browser keeps %d of %d evaluations", kept, epochs/evaluated)
	}
	l.begin("runs/failed")
	l.end("the run has failed")
	b.Until(`document.getElementById("status").textContent == "the run has failed"`)
	b.Check(4, nil)
}

// TestLiveAsSeen: at two widths, light and dark, nobody sees a fault of the page of a run that goes on, which
// marks the best epoch, also where its point was left out.
func TestLiveAsSeen(t *testing.T) {
	b := uitest.NewBrowser(t)
	l := begunLive(t, "runs/fraud/2024-03-01")
	const epochs, best = 5000, 1234
	for k := 1; k <= epochs; k++ {
		l.epoch(train.Epoch{
			Epoch: k, Epochs: epochs, Loss: 1 / float64(k), Metric: "accuracy", Evaluated: true, Seconds: .25,
			PeakBytes: 5e6,
			Scores: metric.Scores{
				Train: .7, Val: 1 - math.Abs(best-float64(k))/epochs, Test: .6, ValLoss: 1,
			},
		})
	}
	for _, width := range []int{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.Open(l.url())
			b.Until(fmt.Sprintf("points && points.length > 0 && points.at(-1).epoch == %d && best == %d",
				epochs, best))
			assert.Empty(t, b.Faults(width, scheme), "at %d px, %s", width, scheme)
			b.Check(4, []string{
				"best epoch 1,234", "epoch 5000", "training", "validation", "test", "validation 100.00 %",
			})
		}
	}
}
