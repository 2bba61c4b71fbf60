package training

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/reports"
	"weft/cmd/weft/internal/ui"
	"weft/internal/gate"
	"weft/internal/refusal"
	"weft/serve"
	"weft/train"
	"weft/train/metric"
	"weft/train/setting"
)

var (
	//go:embed page/watch.html
	watchPage string
	//go:embed page/watch.js
	watchScript template.JS
)

// live is a page that shows a run while it goes on, to browsers on this machine only. The run only appends to
// it: a browser that reads slowly, or not at all, holds nobody up. However many browsers come, the page takes
// few files and little time from the run, and a failure of the page fails nothing else. A nil live shows
// nothing.
type live struct {
	server *http.Server
	gate   *gate.Gate
	text   []byte        // the text of the page
	most   int64         // how many readers there may be at once
	hold   time.Duration // how long the place of a reader that has left stays taken

	mu    sync.Mutex
	name  string
	about string // the settings that differ from their defaults
	// more is what the status says about an epoch in addition to its number; nil: nothing.
	more   func(train.Epoch) string
	best   train.Epoch // the best epoch so far; zero: unknown
	run    int         // how many runs have begun
	points []train.Epoch
	every  int // one of so many epochs is kept, beginning with the first
	status string
	ended  string             // how the last run ended; "": it goes on
	wake   chan struct{}      // closed when something is new
	stop   context.CancelFunc // ends the requests
	say    func(format string, args ...any)
	failed bool // the page has failed, and say has been called

	readers atomic.Int64 // browsers to which events are sent
}

const (
	watchPoints   = 2000                   // most epochs that are kept
	watchPause    = 200 * time.Millisecond // between two messages to a browser
	watchDeadline = 10 * time.Second       // for a browser to ask, and to take a message
	watchReaders  = 16                     // most readers at once
	// So long a reader that has left keeps its place: a new reader must be sent all points.
	watchHold = 2 * time.Second
)

// newLive begins to listen on a port of this machine's own address; 0: a free port.
func newLive(port int) (*live, error) {
	if err := cli.CheckPort("watch", port); err != nil {
		return nil, err
	}
	files, err := gate.Files()
	var listener net.Listener
	if err == nil {
		listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	if err != nil {
		return nil, refusal.Errorf("--watch %d: %w; name another port, or 0 for a free one", port, err)
	}
	return liveOn(listener, files), nil
}

// liveOn shows the page to those who connect to the listener, if this process may open so many files.
func liveOn(listener net.Listener, files uint64) *live {
	ctx, stop := context.WithCancel(context.Background())
	most := readersWith(files)
	// Clients that send nothing keep a place for the patience of the gate: behind few places a reader waits.
	places := max(most+(most+1)/2, int(min(gate.Most, files/16)))
	l := &live{
		gate: gate.New(listener, places), text: watchText(),
		most: int64(most), hold: watchHold,
		every: 1, wake: make(chan struct{}), stop: stop,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", l.page)
	mux.HandleFunc("GET /events", l.events)
	l.server = &http.Server{
		Handler: onlyLocal(mux), ReadHeaderTimeout: watchDeadline, WriteTimeout: watchDeadline,
		MaxHeaderBytes: 16 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ErrorLog:       log.New(faults{l}, "", 0),
	}
	l.gate.Attend(l.server)
	l.server.SetKeepAlivesEnabled(false) // an idle connection would take the place of another one
	go func() {
		if err := l.server.Serve(l.gate); !errors.Is(err, http.ErrServerClosed) {
			l.fail(err.Error())
		}
	}()
	return l
}

// readersWith is how many browsers may read if a process may open so many files: the run needs others.
func readersWith(files uint64) int { return int(min(watchReaders, 1+files/16)) }

// faults takes the lines of the server's log, which tell what failed on the page.
type faults struct{ page *live }

func (f faults) Write(line []byte) (int, error) {
	f.page.fail(string(line))
	return len(line), nil
}

// fail reports in a line of its own the first failure of the page, once the run has begun.
func (l *live) fail(what string) {
	l.mu.Lock()
	say := l.say
	if l.failed {
		say = nil
	}
	l.failed = l.failed || say != nil
	l.mu.Unlock()
	if say != nil {
		what, _, _ = strings.Cut(what, "\n")
		say("the live page: %s; the run goes on", what)
	}
}

// reportTo has say take the line that reports a failure.
func (l *live) reportTo(say func(format string, args ...any)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.say = say
}

// url is where a browser finds the page.
func (l *live) url() string { return "http://" + l.gate.Addr().String() + "/" }

// onlyLocal refuses requests that name another host than this one. A page elsewhere could send such requests,
// if its name leads to this host (DNS rebinding).
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !serve.IsLocal(r.Host) {
			http.Error(w, "this page is for this machine alone: open it as 127.0.0.1", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (l *live) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(l.text) // the browser may be gone
}

// watchText is the page, made of embedded parts.
func watchText() []byte {
	var text bytes.Buffer
	page := template.Must(template.New("watch").Parse(watchPage))
	err := page.Execute(&text, reports.PartsWith(watchScript))
	if err != nil {
		panic(err)
	}
	return text.Bytes()
}

// begin begins a run.
func (l *live) begin(name string) {
	l.change(func() {
		l.name, l.run, l.points, l.every, l.ended, l.status = name, l.run+1, nil, 1, "",
			"waiting for the first epoch"
		l.about, l.more, l.best = "", nil, train.Epoch{}
	})
}

// tell sets what the page shows about the run that has begun: its settings, the time that is left, and the
// best epoch.
func (l *live) tell(o *setting.Options, left func(train.Epoch) string) {
	l.change(func() {
		l.about = o.Given()
		l.more = func(e train.Epoch) (more string) {
			if text := left(e); text != "" {
				more = ", " + text
			}
			l.best = train.BestOf([]train.Epoch{l.best, e}, o, e.Metric)
			if best := &l.best; best.Epoch > 0 {
				more += fmt.Sprintf("; best epoch %s, %s %s", ui.Count(best.Epoch), best.Metric,
					ui.ValAndTest(best.Metric, metric.Number(best.Val), metric.Number(best.Test)))
			}
			return more
		}
	})
}

// epoch adds an epoch. If there are many, it keeps one of each every: the last one that was evaluated, or
// else the last one.
func (l *live) epoch(e train.Epoch) {
	l.change(func() {
		l.status = fmt.Sprintf("epoch %s of %s", ui.Count(e.Epoch), ui.Count(e.Epochs))
		if l.more != nil {
			l.status += l.more(e)
		}
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

// with are the points with one more epoch, which may replace the last one.
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

// end says how the run ended.
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

// close ends the page. Browsers that read have a moment to receive how the run ended.
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
	Share  bool   `json:"share"` // the metric is a fraction of 1
	About  string `json:"about,omitempty"`
}

// events sends a browser the epochs as they come, as server-sent events.
func (l *live) events(w http.ResponseWriter, r *http.Request) {
	if l.readers.Add(1) > l.most {
		l.readers.Add(-1)
		http.Error(w, fmt.Sprintf("%d browsers read this page, and there is room for no more: close one",
			l.most), http.StatusServiceUnavailable)
		return
	}
	defer time.AfterFunc(l.hold, func() { l.readers.Add(-1) })
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
	run, last := -1, 0 // what the browser has received
	for {
		l.mu.Lock()
		wake, now, name, about, status, ended := l.wake, l.run, l.name, l.about, l.status, l.ended
		best := l.best.Epoch
		if now != run {
			last = 0
		}
		from, _ := slices.BinarySearchFunc(l.points, last+1,
			func(e train.Epoch, epoch int) int { return e.Epoch - epoch })
		points := slices.Clone(l.points[from:])
		l.mu.Unlock()
		var err error
		if now != run && len(points) > 0 {
			begun := beginning{name, points[0].Metric, metric.IsFraction(points[0].Metric), about}
			run, err = now, send("begin", begun)
		}
		if err == nil && len(points) > 0 {
			last = points[len(points)-1].Epoch
			err = send("epochs", map[string]any{"points": points, "status": status, "best": best})
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
