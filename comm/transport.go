package comm

// Transport moves bytes between ranks: those of one process (InProcess), or processes (package mpi).
//
// Messages with the same sender, receiver and tag arrive in the order in which they were sent. Messages with
// different tags do not wait for each other. Any goroutine may call any method.
type Transport interface {
	Rank() int
	Size() int

	// Send starts to send data, which must stay unchanged until the request is done. The request is done when
	// the receiver has taken the bytes, or when the transport holds a small message in a buffer. Buffers are
	// bounded.
	Send(data []byte, to, tag int) Request

	// Receive starts to receive a message into data. Exactly len(data) bytes must arrive: another length is
	// an error.
	Receive(data []byte, from, tag int) Request

	// Abort ends every pending and every later request with an error that wraps ErrAborted and err: of every
	// rank in one process, or of this rank with MPI. When it returns, the requests' memory is no longer read
	// or written. The first call counts; the others do nothing.
	Abort(err error)

	// Close ends the transport in an orderly way. Every rank calls it when it has no pending request.
	Close() error
}

// DeviceTransport is a Transport that may send from a device's memory, and receive into it.
type DeviceTransport interface {
	Transport
	// TakesDevice says why it does not; nil: it does.
	TakesDevice() error
	// UseDevice calls use, which makes a device that of the calling thread, on the one that moves the bytes.
	UseDevice(use func() error) error
}

// Request is a message in flight.
type Request interface {
	// Done is closed when the message has been moved, or has failed. Its caller is about to wait, which a
	// transport may take into account.
	Done() <-chan struct{}
	Err() error // once Done is closed: why it failed
}
