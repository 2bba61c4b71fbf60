package commtest

import (
	"fmt"
	"sync"

	"weft/comm"
)

// Event is the start of a send or a receive, or the end of the wait for it.
type Event struct {
	Rank, Peer int
	Send       bool
	Ended      bool
	Kind       comm.Kind
	Data       []byte // the message; of a receive, once the wait has ended
}

// String is the event in a transcript: "0 sends 64 bytes of halo to 2".
func (e Event) String() string {
	verb, way := "receives", "from"
	if e.Send {
		verb, way = "sends", "to"
	}
	if e.Ended {
		return fmt.Sprintf("%d ended: %s %d bytes of %v %s %d", e.Rank, verb, len(e.Data),
			e.Kind, way, e.Peer)
	}
	return fmt.Sprintf("%d %s %d bytes of %v %s %d", e.Rank, verb, len(e.Data), e.Kind, way, e.Peer)
}

// Record wraps the transport t so that it calls log for each event, in the goroutine that starts a message or
// waits for it. When a receive starts, log may write to its data.
func Record(t comm.Transport, log func(Event)) comm.Transport { return &recorder{t, log} }

type recorder struct {
	comm.Transport
	log func(Event)
}

func (r *recorder) Send(data []byte, to, tag int) comm.Request {
	e := Event{Rank: r.Rank(), Peer: to, Send: true, Kind: comm.KindOf(tag), Data: data}
	r.log(e)
	return &recorded{r.Transport.Send(data, to, tag), e, r.log}
}

func (r *recorder) Receive(data []byte, from, tag int) comm.Request {
	e := Event{Rank: r.Rank(), Peer: from, Kind: comm.KindOf(tag), Data: data}
	r.log(e)
	return &recorded{r.Transport.Receive(data, from, tag), e, r.log}
}

type recorded struct {
	comm.Request
	event Event
	log   func(Event)
}

// Err is the result of a wait.
func (r *recorded) Err() error {
	r.event.Ended = true
	r.log(r.event)
	return r.Request.Err()
}

// Flights counts the messages that are in flight, from their start to the end of the wait for them.
type Flights struct {
	mu        sync.Mutex
	now, most map[Lane]int
}

// Lane is where messages are in flight: a rank and whether it sends or receives them.
type Lane struct {
	Rank int
	Send bool
	Kind comm.Kind
}

// Log counts an event of Record.
func (f *Flights) Log(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		f.now, f.most = map[Lane]int{}, map[Lane]int{}
	}
	l := Lane{e.Rank, e.Send, e.Kind}
	if e.Ended {
		f.now[l]--
		return
	}
	f.now[l]++
	f.most[l] = max(f.most[l], f.now[l])
}

// Most are the most messages in flight at one time, by lane.
func (f *Flights) Most() map[Lane]int { return f.most }
