package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weft/internal/refusal"
	"weft/train"
	"weft/train/metric"
)

var (
	//go:embed page/watch.html
	watchPage string
	//go:embed page/watch.js
	watchScript string
)

// live is a page that shows a run while it goes on, to browsers on this machine alone. The run only appends
// to it: who reads slowly, or not at all, holds nobody up. nil shows nothing.
type live struct {
	server   *http.Server
	listener net.Listener

	mu     sync.Mutex
	name   string
	run    int // counts the runs that have begun
	points []train.Epoch
	every  int // of so many epochs, beginning with the first, one is kept
	status string
	ended  string             // what the last run came to; "": it goes on
	wake   chan struct{}      // closed when something is new
	stop   context.CancelFunc // ends the requests

	readers atomic.Int64 // browsers that are sent events
}

const (
	watchPoints   = 2000                   // are kept, at most
	watchPause    = 200 * time.Millisecond // between two messages to a browser
	watchDeadline = 10 * time.Second       // for a browser to take a message
)

// newLive begins to listen on a port of this machine's own address; 0 takes a free one.
func newLive(port int) (*live, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, refusal.Errorf("--watch %d: %w; name another port, or 0 for a free one", port, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &live{listener: listener, every: 1, wake: make(chan struct{}), stop: stop}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", l.page)
	mux.HandleFunc("GET /events", l.events)
	l.server = &http.Server{
		Handler: onlyLocal(mux), ReadHeaderTimeout: watchDeadline,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() { _ = l.server.Serve(listener) }() // ends with close
	return l, nil
}

// url is where a browser finds the page.
func (l *live) url() string { return "http://" + l.listener.Addr().String() + "/" }

// onlyLocal refuses requests that name another host than this one, as those of a page elsewhere would whose
// name leads here.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if host != "localhost" && host != "127.0.0.1" {
			http.Error(w, "this page is for this machine alone: open it as 127.0.0.1", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (l *live) page(w http.ResponseWriter, _ *http.Request) {
	page := template.Must(template.New("watch").Parse(watchPage)) // embedded
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, struct { // the browser may be gone
		Style, ChartStyle template.CSS
		Script, Axis      template.JS
		Chart             template.JS
	}{template.CSS(reportStyle), template.CSS(chartStyle), template.JS(watchScript), template.JS(axisScript), template.JS(chartScript)}) //nolint:gosec // embedded
}

// begin begins a run.
func (l *live) begin(name string) {
	l.change(func() {
		l.name, l.run, l.points, l.every, l.ended, l.status = name, l.run+1, nil, 1, "", "waiting for the first epoch"
	})
}

// epoch adds an epoch. Of many, one of so many is kept: the last one that was evaluated, else the last one.
func (l *live) epoch(e train.Epoch) {
	l.change(func() {
		l.status = fmt.Sprintf("epoch %s of %s", count(e.Epoch), count(e.Epochs))
		if l.points = l.with(l.points, e); len(l.points) > watchPoints {
			l.every *= 2
			all := l.points
			l.points = nil
			for _, e := range all {
				l.points = l.with(l.points, e)
			}
		}
	})
}

// with are the points with one more epoch, which may take the place of the last one.
func (l *live) with(points []train.Epoch, e train.Epoch) []train.Epoch {
	n := len(points)
	switch {
	case n == 0 || (points[n-1].Epoch-1)/l.every != (e.Epoch-1)/l.every:
		return append(points, e)
	case e.Evaluated || !points[n-1].Evaluated:
		points[n-1] = e
	}
	return points
}

// end says what the run came to.
func (l *live) end(what string) { l.change(func() { l.ended = what }) }

// change changes what browsers are shown, and tells them.
func (l *live) change(f func()) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.wake)
	l.wake = make(chan struct{})
}

// close ends the page. Browsers that read have a moment to hear how the run ended.
func (l *live) close() {
	if l == nil {
		return
	}
	if l.readers.Load() > 0 {
		time.Sleep(2 * watchPause)
	}
	l.stop()
	_ = l.server.Close() // nothing is lost
}

// beginning is what a browser is told when a run begins.
type beginning struct {
	Name   string `json:"name"`
	Metric string `json:"metric"`
	Share  bool   `json:"share"` // the metric is one of 1
}

// events sends a browser the epochs as they come: server-sent events.
func (l *live) events(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	send := func(kind string, data any) error {
		text, err := json.Marshal(data)
		if err == nil {
			err = control.SetWriteDeadline(time.Now().Add(watchDeadline))
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text)
		}
		return errors.Join(err, control.Flush())
	}
	l.readers.Add(1)
	defer l.readers.Add(-1)
	run, last := -1, 0 // what the browser has
	for {
		l.mu.Lock()
		wake, now, name, status, ended := l.wake, l.run, l.name, l.status, l.ended
		if now != run {
			last = 0
		}
		from, _ := slices.BinarySearchFunc(l.points, last+1, func(e train.Epoch, epoch int) int { return e.Epoch - epoch })
		points := slices.Clone(l.points[from:])
		l.mu.Unlock()
		var err error
		if now != run && len(points) > 0 {
			name := beginning{name, points[0].Metric, metric.IsShare(points[0].Metric)}
			run, err = now, send("begin", name)
		}
		if err == nil && len(points) > 0 {
			last = points[len(points)-1].Epoch
			err = send("epochs", map[string]any{"points": points, "status": status})
		}
		if err == nil && ended != "" && (now == run || len(points) == 0) {
			err = send("end", ended)
		}
		if err != nil {
			return
		}
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		}
		select {
		case <-time.After(watchPause):
		case <-r.Context().Done():
			return
		}
	}
}
