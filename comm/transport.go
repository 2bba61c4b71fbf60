package comm

// Transport moves bytes between ranks: goroutines of one process (InProcess), or processes (package mpi).
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

	// Receive starts to receive a message into data. Exactly len(data) bytes must arrive. Another length is
	// an error.
	Receive(data []byte, from, tag int) Request

	// Abort ends every pending and every later request with an error that wraps ErrAborted and err. In one
	// process these are the requests of every rank, and with MPI the requests of this rank. When it returns,
	// the requests' memory is no longer read or written. Only the first call counts.
	Abort(err error)

	// Close ends the transport in an orderly way. Every rank calls it, when it has no pending request.
	Close() error
}

// DeviceTransport is a Transport that may send from a device's memory, and receive into it.
type DeviceTransport interface {
	Transport
	// TakesDevice says why the transport cannot do so; nil: it can.
	TakesDevice() error
	// UseDevice calls use on the thread that moves the bytes. use makes a device current for the calling
	// thread.
	UseDevice(use func() error) error
}

// Request is a message in flight.
type Request interface {
	// Done is closed when the message has been moved, or has failed. Who calls it is about to wait, which a
	// transport may take into account.
	Done() <-chan struct{}
	Err() error // why the message failed, once Done is closed
}
