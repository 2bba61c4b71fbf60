package commtest

import (
	"fmt"

	"weft/comm"
)

// Event is the start of a send or a receive.
type Event struct {
	Rank, Peer int
	Send       bool
	Kind       comm.Kind
	Bytes      int
}

// String is the event in a transcript: "0 sends 64 bytes of halo to 2".
func (e Event) String() string {
	if e.Send {
		return fmt.Sprintf("%d sends %d bytes of %v to %d", e.Rank, e.Bytes, e.Kind, e.Peer)
	}
	return fmt.Sprintf("%d receives %d bytes of %v from %d", e.Rank, e.Bytes, e.Kind, e.Peer)
}

// Record is the transport t that calls log when a send or a receive starts, in the goroutine that starts it.
func Record(t comm.Transport, log func(Event)) comm.Transport { return &recorder{t, log} }

type recorder struct {
	comm.Transport
	log func(Event)
}

func (r *recorder) Send(data []byte, to, tag int) comm.Request {
	r.log(Event{r.Rank(), to, true, comm.KindOf(tag), len(data)})
	return r.Transport.Send(data, to, tag)
}

func (r *recorder) Receive(data []byte, from, tag int) comm.Request {
	r.log(Event{r.Rank(), from, false, comm.KindOf(tag), len(data)})
	return r.Transport.Receive(data, from, tag)
}
