package gate

import (
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/require"
)

// pipes is a listener whose connections are pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestGate: where all places are taken, a connection waits outside until one leaves, or one has waited long
// for its client. That which has waited longest goes; one for which the server works stays.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		g := New(l, 3)
		in := make(chan net.Conn)
		go func() {
			for c, err := g.Accept(); err == nil; c, err = g.Accept() {
				in <- c
			}
			close(in)
		}()
		connect := func() net.Conn {
			here, there := net.Pipe()
			l <- there
			return here
		}
		closed := func(c net.Conn) bool {
			return c.SetReadDeadline(time.Time{}) != nil // as pipes say
		}
		var s http.Server
		g.Attend(&s)
		works := connect()
		s.ConnState(<-in, http.StateActive)
		idle := connect()
		second := <-in
		s.ConnState(second, http.StateIdle)
		quick := connect()
		leaves := <-in
		time.Sleep(patience / 2)
		leaves.(*Conn).Waits()
		assert.Equal(t, 3, g.Open())

		began := time.Now()
		fourth := connect()
		<-in
		if took := time.Since(began); took < patience/2-look || took > patience/2+look {
			t.Errorf("the fourth waited %s", took)
		}
		<-second.(*Conn).Gone()
		assert.Equal(t, []bool{false, true, false, false},
			[]bool{closed(works), closed(idle), closed(quick), closed(fourth)})
		assert.Equal(t, 3, g.Open())

		fifth := connect()
		require.NoError(t, leaves.Close())
		<-in
		assert.Equal(t, []bool{false, true, false}, []bool{closed(works), closed(quick), closed(fifth)})

		waiting, conns := []net.Conn{fourth, fifth}, []net.Conn(nil)
		for range 5 {
			time.Sleep(patience)
			waiting = append(waiting, connect())
			conns = append(conns, <-in)
			assert.Equal(t, []bool{true, false}, []bool{closed(waiting[0]), closed(waiting[1])})
			waiting = waiting[1:]
		}
		for _, c := range conns {
			c.(*Conn).Works()
		}

		connect()
		require.NoError(t, g.Close())
		for range in {
		}
		assert.Equal(t, 3, g.Open())
	})
}

// full is a listener of a process that may open no more files, but for those that its connections give back.
type full struct {
	pipes
	left *atomic.Int32
}

func (f full) Accept() (net.Conn, error) {
	if f.left.Load() == 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", unix.EMFILE)}
	}
	c, err := f.pipes.Accept()
	f.left.Add(-1)
	return &counted{c, f.left}, err
}

// counted gives its file back.
type counted struct {
	net.Conn
	left *atomic.Int32
}

func (c *counted) Close() error { c.left.Add(1); return c.Conn.Close() }

// TestNoFiles: where the process may open no more files, a connection that has waited long makes room, as one
// does where all places are taken.
func TestNoFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := full{make(pipes, 3), new(atomic.Int32)}
		l.left.Store(2)
		g := New(l, 9)
		for range 3 {
			here, there := net.Pipe()
			defer here.Close()
			l.pipes <- there
		}
		began := time.Now()
		first, err := g.Accept()
		require.NoError(t, err)
		first.(*Conn).Works()
		second, err := g.Accept()
		require.NoError(t, err)
		_, err = g.Accept()
		require.NoError(t, err)
		<-second.(*Conn).Gone()
		if took := time.Since(began); took < patience || took > patience+2*look {
			t.Errorf("it waited %s", took)
		}
		assert.Equal(t, 2, g.Open())
		require.NoError(t, g.Close())
		_, err = g.Accept()
		assert.ErrorIs(t, err, net.ErrClosed)
	})
}
