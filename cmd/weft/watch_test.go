package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"weft/train"
)

// TestLive: a browser that joins late gets the curve, thinned, and what is new. One that never reads holds up
// neither the run nor the others. The page is for this machine alone.
func TestLive(t *testing.T) {
	l, err := newLive(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.begin("runs/one")
	stuck, err := net.Dial("tcp", l.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	fmt.Fprint(stuck, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	const epochs = 10_000
	epoch := func(k int) train.Epoch {
		return train.Epoch{Epoch: k, Epochs: epochs, Loss: 1 / float64(k), Metric: "accuracy", Evaluated: true, Val: .5, Seconds: .25}
	}
	for k := 1; k < epochs; k++ {
		l.epoch(epoch(k))
	}
	if n := len(l.points); n > watchPoints || n < watchPoints/4 {
		t.Errorf("%d epochs are kept", n)
	}
	response, err := http.Get(l.url() + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReaderSize(response.Body, 1<<20)
	next := func() (kind, data string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if value, is := strings.CutPrefix(line, "event: "); is {
				kind = strings.TrimSpace(value)
			}
			if value, is := strings.CutPrefix(line, "data: "); is {
				return kind, strings.TrimSpace(value)
			}
		}
	}
	if kind, data := next(); kind != "begin" || data != `{"name":"runs/one","metric":"accuracy","share":true}` {
		t.Errorf("%s: %s", kind, data)
	}
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
	}
	if kind, data := next(); kind != "end" || data != `"all is done"` {
		t.Errorf("%s: %s", kind, data)
	}
	get := func(host string) (int, string) {
		request, err := http.NewRequest(http.MethodGet, l.url(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	if status, text := get("localhost:80"); status != http.StatusOK || !strings.Contains(text, "new EventSource(") {
		t.Errorf("status %d", status)
	}
	if status, _ := get("elsewhere.example"); status != http.StatusForbidden {
		t.Errorf("another host: status %d", status)
	}
	if _, err := newLive(l.listener.Addr().(*net.TCPAddr).Port); err == nil || !strings.Contains(err.Error(), "name another port") {
		t.Errorf("a port in use: %v", err)
	}
}

// TestLiveInABrowser: the page shows a run of many epochs, with no more memory than one of few, also when
// several runs follow each other.
func TestLiveInABrowser(t *testing.T) {
	const epochs, most = 10_000, 50e6
	b := newBrowser(t)
	l, err := newLive(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.begin("runs/one")
	b.open(l.url())
	for run := range 3 {
		if run > 0 {
			l.begin(fmt.Sprintf("runs/%d", run))
		}
		for k := 1; k <= epochs; k++ {
			l.epoch(train.Epoch{
				Epoch: k, Epochs: epochs, Loss: 1 / float64(k), LR: .01, Metric: "accuracy", Evaluated: true, Train: .7, Val: .5, Test: .6, ValLoss: 1.5, Seconds: .25,
				LiveBytes: int64(k), PeakBytes: int64(k),
			})
			if k%(epochs/4) == 0 { // the browser joins, or follows
				b.until(fmt.Sprintf("points && points.length > 0 && points.at(-1).epoch == %d", k))
			}
		}
		b.until(`document.getElementById("status").textContent == "epoch 10,000 of 10,000"`)
		heap := b.heap()
		t.Logf("run %d: %.1f MB in the browser", run, float64(heap)/1e6)
		if heap > most {
			t.Errorf("run %d: the page takes %d bytes", run, heap)
		}
		b.check(4, []string{"accuracy", "seconds of an epoch"})
		l.end("it has ended") // the browser hears it, and waits for the next run
		b.until(`document.getElementById("status").textContent == "it has ended"`)
	}
}

// TestLiveKeepsEvaluations: where few epochs are evaluated, a long curve loses none of these while there is
// room, in the process and in the browser, and a run without an epoch tells how it ended.
func TestLiveKeepsEvaluations(t *testing.T) {
	const epochs, evaluated = 10_000, 25
	l, err := newLive(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.begin("runs/one")
	add := func() {
		for k := 1; k <= epochs; k++ {
			l.epoch(train.Epoch{Epoch: k, Epochs: epochs, Loss: 1, Metric: "accuracy", Evaluated: k%evaluated == 0, Val: .5, Seconds: .25})
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
	b := newBrowser(t)
	l.begin("runs/other")
	b.open(l.url())
	add()
	b.until(fmt.Sprintf("points && points.length > 0 && points.at(-1).epoch == %d", epochs))
	b.evaluate("points.filter(p => p.val !== undefined).length", &kept)
	if kept < epochs/evaluated {
		t.Errorf("the browser keeps %d of %d evaluations", kept, epochs/evaluated)
	}
	l.begin("runs/failed")
	l.end("the run has failed")
	b.until(`document.getElementById("status").textContent == "the run has failed"`)
	b.check(4, nil)
}
