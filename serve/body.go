package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"weft/internal/gate"
)

// These bound what clients make this server hold.
const (
	mostBytes = 4 << 20 // bytes of a body
	// This much of a longer body is read before the answer: a client that still sends reads nothing.
	mostRead = 4 * mostBytes
	// Bodies up to so many bytes are decoded as they come. Longer ones take turns, for a part at a time.
	smallBody = 16 << 10
	partBytes = 64 << 10
	// A request may take freeMemory bytes whatever the others hold. The second bounds one request, the third
	// all together, without freeMemory of each.
	freeMemory = 64 << 10
	mostMemory = 128 << 20
	allMemory  = 512 << 20
)

// A body has a second for so many bytes beside its first seconds, and readDeadline at most.
const (
	firstBytes  = 5 * time.Second
	leastASpeed = 64 << 10
)

// restPace is the time between two refusals, and between two parts of the rest of a body whose request is
// answered. So a flood of either takes little from others.
const restPace = time.Millisecond

// errLong is that a body has more than mostBytes.
var errLong = errors.New("the body is too long")

// body is the body of a request as it comes. Its reader holds one of few permits while it works on a body
// that is not small, and none while it waits for the client. While it waits for a permit or for the client,
// its connection may make room for another.
type body struct {
	io.ReadCloser
	conn      *gate.Conn
	control   *http.ResponseController
	permits   chan struct{} // an element for each turn that is taken
	permitted bool
	waited    time.Duration // time that it waited for the client
	read      int64
	most      int64 // bytes
	ended     error // end of the body or error; nil: more may come
}

// bodyOf makes a request read its body as a body.
func (s *Server) bodyOf(w http.ResponseWriter, r *http.Request) *body {
	b := &body{
		ReadCloser: r.Body, conn: gate.Of(r), control: http.NewResponseController(w), permits: s.permits,
		most: mostBytes,
	}
	if r.Body == http.NoBody {
		b.ended = io.EOF
	}
	r.Body = b
	return b
}

func (b *body) Read(p []byte) (n int, err error) {
	b.release()
	if b.ended != nil {
		return 0, b.ended
	}
	if b.read > b.most {
		return 0, errLong
	}
	p = p[:min(int64(len(p)), partBytes, b.most+1-b.read)]
	may := firstBytes + time.Duration(b.read)*time.Second/leastASpeed
	began := time.Now()
	// it fails where there is no connection, which is never slow
	_ = b.control.SetReadDeadline(began.Add(min(may, readDeadline) - b.waited))
	b.conn.Waits()
	n, b.ended = b.ReadCloser.Read(p)
	b.waited += time.Since(began)
	b.read += int64(n)
	if b.read > smallBody {
		select {
		case b.permits <- struct{}{}:
			b.permitted = true
		case <-b.conn.Gone():
			return 0, net.ErrClosed
		}
	}
	b.conn.Works()
	return n, b.ended
}

// release gives the permit to another request.
func (b *body) release() {
	if b.permitted {
		<-b.permits
	}
	b.permitted = false
}

// end reads the rest of the body, so that its client reads the answer. It reads a part in each restPace, in
// turns of their own. If the client waits to be asked for the body, end does not ask.
func (b *body) end(r *http.Request, turns chan struct{}) {
	b.release()
	if b.ended == nil && (b.read > 0 || r.Header.Get("Expect") == "") {
		b.permits, b.most = turns, mostRead
		part := make([]byte, partBytes)
		for _, err := b.Read(part); err == nil; _, err = b.Read(part) {
			time.Sleep(restPace)
		}
		b.release()
	}
	b.conn.Waits() // the client takes the answer
}

// holding is the memory that a request holds.
type holding struct {
	all   *atomic.Int64 // bytes of all requests, beside freeMemory of each
	bytes int64
}

// shared returns the bytes that count against the limit of all requests.
func (h *holding) shared() int64 { return max(0, h.bytes-freeMemory) }

// take counts further bytes, and refuses them if they are too many.
func (h *holding) take(bytes int) error {
	before := h.shared()
	h.bytes += int64(bytes)
	switch total := h.all.Add(h.shared() - before); {
	case h.bytes > mostMemory:
		return badRequest{fmt.Errorf("the request and its answer take more than %d MiB of memory; ask for "+
			"fewer vertices at a time", mostMemory>>20), http.StatusRequestEntityTooLarge}
	case total > allMemory && h.shared() > before:
		return badRequest{errors.New("other requests hold the memory that this one needs; ask again in a " +
			"second"), http.StatusServiceUnavailable}
	}
	return nil
}

// release counts the memory as free.
func (h *holding) release() {
	h.all.Add(-h.shared())
	h.bytes = 0
}
