package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"iter"
	"unsafe"

	"weft/tensor"
)

// Device is a device that runs kernels. Copies to the host wait for them. Package device implements it.
type Device interface {
	tensor.Mover
	// Elapsed calls ask, and waits. It returns how many seconds the device took for the work that ask began.
	Elapsed(ask func()) (seconds float64, err error)
	// Cache returns the bytes of the device's last-level cache; 0: unknown.
	Cache() int64
	// Has reports whether the device has a kernel of that name.
	Has(kernel string) bool
	// Launch starts a kernel with so many blocks of threads, whose arguments are the struct of so many bytes
	// at args.
	Launch(kernel string, blocks, threads int, args unsafe.Pointer, bytes int) error
}

// NewDeviceTeam returns a team that computes on a device, which has the elements of all matrices of memory
// (Meter.On). Work without a kernel of the device runs on so many threads of the CPU, between two copies.
func NewDeviceTeam(c Device, threads int, memory *tensor.Meter) *Team {
	threads = max(1, threads)
	return newTeam(threads, memory, &device{
		card: c, cpu: newCPU(threads), memory: memory, shapes: shapes,
	})
}

// NewDevicePlan is NewPlan for a team on a device.
func NewDevicePlan(threads int, memory *tensor.Meter) *Team {
	memory.Plan()
	return newTeam(max(1, threads), memory, nothingOnDevice{memory: memory})
}

// Wait returns when a device has done all it was asked.
func (t *Team) Wait() { t.backend.wait() }

// Timing returns a function for Watch. It makes each call, and passes the seconds that it takes to tell: the
// mean of 20 repetitions after 3, by the clock of the team's device. A call that is equal to an earlier one
// is not timed again. The values that repeated calls compute are of no use.
func (t *Team) Timing(tell func(c Call, seconds float64)) func(c Call, run func()) {
	const before, times = 3, 20
	on, known := t.backend.(*device), map[Call]float64{}
	return func(c Call, run func()) {
		seconds, again := known[c]
		if again {
			run()
		} else {
			for range before {
				run()
			}
			took, err := on.card.Elapsed(func() {
				for range times {
					run()
				}
			})
			if err != nil {
				panic(tensor.DeviceFailure{Err: err})
			}
			seconds = took / times
			known[c] = seconds
		}
		tell(c, seconds)
	}
}

// nothingOnDevice is the backend of a plan for a device.
type nothingOnDevice struct {
	nothing
	memory *tensor.Meter
}

// run notes the kernels that the CPU would run.
func (p nothingOnDevice) run(l launch) {
	for single := range l.each() {
		if _, _, has := shapes.cut(single); !has {
			p.memory.ToHost(names[single.links[0].name], nil)
		}
	}
}

func (nothingOnDevice) has(kernel C.int) bool { return shapes[kernel] != nil }

// device is the backend of a device.
type device struct {
	card   Device
	cpu    *cpu
	memory *tensor.Meter
	shapes shapeTable
}

func (d *device) has(kernel C.int) bool {
	return d.shapes[kernel] != nil && d.card.Has(fullName(kernel, C.WEFT_FLOAT32, ""))
}

func (d *device) wait() {
	if err := d.card.Sync(); err != nil {
		panic(tensor.DeviceFailure{Err: err})
	}
}

func (d *device) parallel(n int, work func(k int)) { d.cpu.parallel(n, work) }

// run runs the kernels of a launch one after the other.
func (d *device) run(l launch) {
	for single := range l.each() {
		if k := single.links[0]; !d.launch(single) {
			d.mustHaveCPU(k)
			d.memory.ToHost(names[k.name], operands(k))
			d.cpu.run(single)
		}
	}
}

// mustHaveCPU panics for a kernel that a team launches only because the device has it: the CPU has other code
// for its work.
func (d *device) mustHaveCPU(k link) {
	switch k.name {
	case C.weft_gelu, C.weft_gelu_back, C.weft_sqrt, C.weft_sqrt_back, C.weft_merge_moments, C.weft_move,
		C.weft_running, C.weft_product, C.weft_weight, C.weft_weight_sum:
		if !d.has(k.name) {
			return
		}
	default:
		return
	}
	pointers, _ := k.pointers()
	for _, f := range pointers {
		p := *(*unsafe.Pointer)(unsafe.Add(k.args, f.offset))
		if p != nil && !d.memory.Holds(p) {
			panic(fmt.Sprintf("kernel: %s: %s is no matrix of the device's memory", names[k.name], f.name))
		}
	}
	panic(fmt.Sprintf("kernel: the device lacks %s for its operands", names[k.name]))
}

// each returns the launches of the single kernels of a chain.
func (l launch) each() iter.Seq[launch] {
	return func(yield func(launch) bool) {
		for _, k := range l.links {
			single := l
			single.links = []link{k}
			if !yield(single) {
				return
			}
		}
	}
}

func fullName(kernel C.int, element C.enum_weft_type, variant string) string {
	name := names[kernel] + "_float32"
	if element == C.WEFT_BFLOAT16 {
		name = names[kernel] + "_bfloat16"
	}
	if variant != "" {
		name += "_" + variant
	}
	return name
}

// rows returns the rows, or the tiles, that the one kernel of a launch runs over.
func (l launch) rows() (first, last int) {
	if l.links[0].tile {
		return l.first / l.tile, parts(l.last, l.tile)
	}
	return l.first, l.last
}

// cut returns the device's name of the one kernel of a launch, and how it is cut into threads: no threads if
// there is nothing to do. has is false if devices have no kernel for these arguments.
func (all shapeTable) cut(l launch) (name string, s shape, has bool) {
	k := l.links[0]
	first, last := l.rows()
	n := last - first
	if l.segments != nil {
		n = len(l.segments)
	}
	if n <= 0 {
		return "", shape{}, true
	}
	if all[k.name] == nil {
		return "", shape{}, false
	}
	s = all[k.name](k.args, k.element, n)
	name = fullName(k.name, k.element, s.variant)
	if l.segments != nil {
		name += "_segments"
	}
	return name, s, s.block > 0
}

// launch runs the one kernel of a launch on the device. It returns false if the device does not have it.
func (d *device) launch(l launch) bool {
	name, s, has := d.shapes.cut(l)
	if !has || name != "" && !d.card.Has(name) {
		return false
	}
	if s.threads == 0 {
		return true
	}
	k := l.links[0]
	args, all := d.arguments(k), operands(k)
	segments := len(args) // the word with the segments' address
	if l.segments != nil {
		args = append(args, 0, uint64(l.partials.count), uint64(l.partials.carried))
		all = append(all, tensor.Operand{Address: unsafe.Pointer(l.partials.of)})
	} else {
		first, last := l.rows()
		args = append(args, uint64(first), uint64(last))
	}
	blocks := parts(s.threads, s.block)
	return d.memory.ToDevice(all, func(addresses []uint64) error {
		to := unsafe.Pointer(&args[0])
		pointers, _ := k.pointers()
		for _, f := range pointers {
			if field := (*uint64)(unsafe.Add(to, f.offset)); *field != 0 {
				*field, addresses = addresses[0], addresses[1:]
			}
		}
		if l.segments != nil {
			args[segments] = addresses[0]
		}
		return d.card.Launch(name, blocks, s.block, to, 8*len(args))
	})
}

// arguments returns a copy of the arguments of a kernel, in whole words.
func (d *device) arguments(k link) []uint64 {
	_, size := k.pointers()
	args := make([]uint64, (size+7)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&args[0])), size), unsafe.Slice((*byte)(k.args), size))
	return args
}

// operands returns the addresses in a kernel's arguments that are not NULL.
func operands(k link) (all []tensor.Operand) {
	pointers, _ := k.pointers()
	for _, f := range pointers {
		if p := *(*unsafe.Pointer)(unsafe.Add(k.args, f.offset)); p != nil {
			all = append(all, tensor.Operand{Address: p, Written: f.written})
		}
	}
	return all
}

func (d *device) weight(w *weight) {
	all := []tensor.Operand{{Address: w.x.Pointer()}, {Address: w.g.Pointer()}}
	for _, m := range []*tensor.Matrix{w.z, w.totals, w.sums, w.tileSums, w.panels} {
		if m != nil {
			all = append(all, tensor.Operand{Address: m.Pointer(), Written: true})
		}
	}
	d.memory.ToHost(names[C.weft_weight], all)
	d.cpu.weight(w)
}

// deviceMatMul is MatMul with the device's own kernel.
func (t *Team) deviceMatMul(r routine, z, x, w *tensor.Matrix, in, out int, transposed, accumulate bool) {
	args := &C.weft_product_args{
		x: either(x), z: either(z), w: floats(w), rows: C.int64_t(x.Rows), in: C.int64_t(in), out: C.int64_t(out),
		x_type: C.int32_t(typeOf(x)), z_type: C.int32_t(typeOf(z)),
		transposed: boolean(transposed), accumulate: boolean(accumulate), products: t.floatProducts(),
	}
	r.element = typeOf(x)
	t.launch(Shape{x.Rows, in, out}, 0, launch{links: oneKernel(r, unsafe.Pointer(args)), last: x.Rows, cost: grain})
}

// floatProducts returns how a device multiplies Float32 matrices.
func (t *Team) floatProducts() C.int32_t {
	if t.TF32 {
		return C.WEFT_OF_TF32
	}
	return C.WEFT_OF_FLOATS
}

const (
	// deviceLanes bounds the number of ranges of rows over which a weight's gradient is summed at the same
	// time.
	deviceLanes = 64
	// weightBlocks is about the number of blocks of threads that sum it: two for each multiprocessor of a
	// large GPU.
	weightBlocks = 256
)

// deviceMatMulT is MatMulT with the device's own kernels.
func (t *Team) deviceMatMulT(c Call, z, x, g *tensor.Matrix, to Output) {
	r := on(C.weft_weight)
	if x.Element == tensor.BFloat16 && g.Element == tensor.BFloat16 {
		r.element = C.WEFT_BFLOAT16
	}
	lane := inBlocks(C.int64_t(x.Cols), C.int64_t(g.Cols), 1, r.element, t.floatProducts())
	lanes := min(tilesOfLanes(x.Rows), deviceLanes, max(1, weightBlocks*lane.block/lane.threads))
	sums := t.scratch(tensor.Float64, lanes, z.Len())
	defer sums.Release()
	args := &C.weft_weight_args{
		sum: doubles(sums), x: either(x), g: either(g), in: C.int64_t(x.Cols), out: C.int64_t(g.Cols), tile: laneRows,
		x_type: C.int32_t(typeOf(x)), g_type: C.int32_t(typeOf(g)), rows: C.int64_t(x.Rows), lanes: C.int64_t(lanes),
		products: t.floatProducts(),
	}
	merge := &C.weft_weight_sum_args{
		z: floats(z), sum: doubles(sums), columns: C.int64_t(z.Len()), lanes: C.int64_t(lanes),
		accumulate: boolean(to == Accumulate),
	}
	t.watched(c, func() {
		t.backend.run(launch{links: oneKernel(r, unsafe.Pointer(args)), last: lanes})
		t.backend.run(launch{links: oneKernel(on(C.weft_weight_sum), unsafe.Pointer(merge)), last: z.Len()})
	})
}
