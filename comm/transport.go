package comm

// Transport moves bytes between ranks: those of one process (InProcess), or processes (package mpi).
//
// Messages with the same sender, receiver and tag arrive in the order in which they were sent; messages with
// different tags do not wait for each other. Every method may be called from any goroutine.
type Transport interface {
	Rank() int
	Size() int

	// Send starts to send data, which must stay unchanged until the request is done. It is done when the
	// receiver has taken the bytes, or when the transport holds a small message in a buffer: nothing queues
	// without limit.
	Send(data []byte, to, tag int) Request

	// Receive starts to receive a message into data. Exactly len(data) bytes must arrive: another length is
	// an error.
	Receive(data []byte, from, tag int) Request

	// Abort ends every pending and every later request of every rank (in one process), or of this rank (MPI),
	// with an error that wraps ErrAborted and err. When it returns, the memory of the requests is no longer
	// read or written. The first call decides; the others do nothing.
	Abort(err error)

	// Close is the orderly end. Every rank calls it, when none has a request pending.
	Close() error
}

// Request is a message on its way.
type Request interface {
	Done() <-chan struct{} // closed when the message has been moved, or has failed
	Err() error            // once Done is closed: why it failed
}
