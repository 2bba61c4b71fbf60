package tensor

// What a Meter asks of a device, and what it counts of it.

// Mover is a device's memory, with copies that run beside its kernels. Addresses are the device's. A mark is
// a moment of one of its queues; 0 is a moment that has passed.
type Mover interface {
	Alloc(bytes int64) (address uint64, err error)
	// ToDevice copies to the device. It returns when from may change.
	ToDevice(to uint64, from []byte) error
	// ToHost copies to the host. It returns when the bytes are there.
	ToHost(to []byte, from uint64) error
	// Copy copies between ranges that do not overlap.
	Copy(to, from uint64, bytes int64) error

	// Pinned returns memory of the host that Up copies from and Down copies to.
	Pinned(bytes int64) ([]byte, error)
	// Mark returns a mark that passes when the queue of kernels has done all it was asked so far.
	Mark() (mark uint64, err error)
	// Up begins to copy to the device, after a mark. It returns a mark of the end, before which from must not
	// change.
	Up(to uint64, from []byte, after uint64) (mark uint64, err error)
	// Down begins to copy from the device, after all of the marks. It returns a mark of the end.
	Down(to []byte, from uint64, after ...uint64) (mark uint64, err error)
	// After makes the queue of kernels wait for a mark.
	After(mark uint64) error
	// Wait waits for a mark.
	Wait(mark uint64) error
	// Sync waits until the queue of kernels has done all it was asked.
	Sync() error
	// Graphs returns the number of graphs of kernels that were launched so far.
	Graphs() Graphs
}

// Graphs counts launches of CUDA graphs. A list of kernels that a device has launched before becomes a graph,
// which is launched as one.
type Graphs struct {
	Launches int `json:"launches"` // lists that were launched as graphs
	Kernels  int `json:"kernels"`  // kernels in these lists
	Changed  int `json:"changed"`  // of these kernels: those with other arguments than the time before
}

// Plus returns g + times·more: with times −1 it is the difference.
func (g Graphs) Plus(more Graphs, times int) Graphs {
	return Graphs{
		g.Launches + times*more.Launches, g.Kernels + times*more.Kernels, g.Changed + times*more.Changed,
	}
}

// DeviceFailure is the panic value when the device fails during the use of a matrix.
type DeviceFailure struct{ Err error }

func (e DeviceFailure) Error() string { return e.Err.Error() }

// Unwrap returns the error of the device.
func (e DeviceFailure) Unwrap() error { return e.Err }

// DeviceUse counts the device memory that the matrices of a worker took, and the bytes that moved.
type DeviceUse struct {
	PeakBytes        int64 // the largest number of bytes on the device, with the graph's structure
	HostBytes        int64 // the largest number of bytes valid on the host at a time; a plan does not know it
	StagedBytes      int64 // the part of HostBytes that is pinned memory for messages
	ToDevice, ToHost int64 // bytes that were copied
	Waits            int   // how often the host waited for all that the device was asked
	Launches         int   // kernels that were launched
	Graphs           Graphs
	// OnCPU has, by the name of a kernel that ran on the CPU, the bytes that were copied to the host for it.
	OnCPU map[string]int64
}
