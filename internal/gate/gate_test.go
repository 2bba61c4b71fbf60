package gate

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

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
		g := New(l, 3, 0)
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
