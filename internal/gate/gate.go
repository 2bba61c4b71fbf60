// Package gate bounds the connections that an HTTP server has at once. If all places are taken, the
// connection that has waited longest for its client makes room for the next one. So a client that says
// nothing, sends slowly or does not read keeps nobody out. The server of predictions and the live page of a
// run each have a gate.
package gate

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A connection that has waited less than patience for its client keeps its place. look is the time between
// two searches for one that has waited longer.
const (
	patience = 250 * time.Millisecond
	look     = 5 * time.Millisecond
)

// Most is how many connections a server has at once, if its process may open many more files. Each that waits
// longer than patience gives its place to the next.
const Most = 1000

// Files returns how many files this process may have open.
func Files() (uint64, error) {
	var files unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	return files.Cur, err
}

// Gate is a listener with few connections at once. All others but one wait outside this process.
type Gate struct {
	net.Listener
	most int

	mu    sync.Mutex
	conns map[*Conn]bool
	shut  chan struct{}
	close func() error
}

// New returns a gate with at most so many connections.
func New(l net.Listener, most int) *Gate {
	g := &Gate{Listener: l, most: most, conns: map[*Conn]bool{}, shut: make(chan struct{})}
	g.close = sync.OnceValue(func() error {
		close(g.shut)
		return l.Close()
	})
	return g
}

// Attend makes the server tell the gate which connections wait for their clients, and lets handlers find
// their connection.
func (g *Gate) Attend(s *http.Server) {
	s.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateActive:
			c.(*Conn).Works()
		case http.StateIdle:
			c.(*Conn).Waits()
		}
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, key{}, c)
	}
}

type key struct{}

// Of returns the connection of a request; nil: it came through no gate.
func Of(r *http.Request) *Conn {
	c, _ := r.Context().Value(key{}).(*Conn)
	return c
}

// Accept waits for a connection, and until there is room for it. If the process may open no more files, a
// connection that has waited long makes room.
func (g *Gate) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	for ; errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE); c, err = g.Listener.Accept() {
		g.mu.Lock()
		g.makeRoom()
		g.mu.Unlock()
		select {
		case <-time.After(look):
		case <-g.shut:
			return nil, net.ErrClosed
		}
	}
	if err != nil {
		return nil, err
	}
	conn := &Conn{Conn: c, gate: g, gone: make(chan struct{})}
	conn.leave = sync.OnceFunc(func() { close(conn.gone) })
	for conn.Waits(); !g.admit(conn); {
		select {
		case <-time.After(look):
		case <-g.shut:
			_ = c.Close() // nobody has read from it
			return nil, net.ErrClosed
		}
	}
	return conn, nil
}

// admit gives a connection a place, if there is one or another connection has waited too long in its own.
func (g *Gate) admit(conn *Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.conns) >= g.most && !g.makeRoom() {
		return false
	}
	g.conns[conn] = true
	return true
}

// makeRoom closes the connection that has waited longest, if one has waited too long. The caller holds mu.
func (g *Gate) makeRoom() bool {
	first := (*Conn)(nil)
	since := time.Now().Add(-patience).UnixNano()
	for c := range g.conns {
		if at := c.waits.Load(); at > 0 && at <= since {
			first, since = c, at
		}
	}
	if first == nil {
		return false
	}
	delete(g.conns, first)
	first.leave()
	_ = first.Conn.Close() // its server notices the close
	return true
}

// Open returns how many connections there are.
func (g *Gate) Open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns)
}

// Close ends the listener. Connections stay open.
func (g *Gate) Close() error { return g.close() }

// Conn is a connection that makes room for another when it is closed.
type Conn struct {
	net.Conn
	gate  *Gate
	waits atomic.Int64 // Unix time since which it waits for its client; 0: the server works for it
	gone  chan struct{}
	leave func() // closes gone
}

// Read reads. If the client has reset the connection, Read fails and closes gone.
func (c *Conn) Read(p []byte) (n int, err error) {
	if n, err = c.Conn.Read(p); errors.Is(err, unix.ECONNRESET) {
		c.leave()
	}
	return n, err
}

// Gone is closed once the connection has made room for another, or its client has reset it.
func (c *Conn) Gone() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.gone
}

// Waits says that the server waits for the connection's client from now on. Works ends this.
func (c *Conn) Waits() {
	if c != nil {
		c.waits.Store(time.Now().UnixNano())
	}
}

// Works ends Waits.
func (c *Conn) Works() {
	if c != nil {
		c.waits.Store(0)
	}
}

// CloseWrite ends the sending, so that the client can read all that was sent.
func (c *Conn) CloseWrite() error {
	if half, is := c.Conn.(interface{ CloseWrite() error }); is {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}
