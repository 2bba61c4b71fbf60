package kernel

// #include "native/weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// CrossEntropy is Σ over the listed rows (Int32, 1 × n) of the cross-entropy between softmax(logits) and
// labels (Int32, 1 × rows). Unless grad (in the shape of logits) is nil, its listed rows become scale times
// the gradient; the others are left alone.
func (t *Team) CrossEntropy(grad, logits, rows, labels *tensor.Matrix, scale float64) Sum {
	return t.loss(C.weft_cross_entropy, &C.weft_loss_args{
		grad: floats(grad), logits: floats(logits), rows: ints(rows), labels: ints(labels),
		scale: C.float(scale),
	}, logits, rows)
}

// BinaryCrossEntropy is the same for several labels per row: Σ over the listed rows and all columns of
// the cross-entropy between σ(logits) and targets (Float32, like logits, 0 or 1). A target that is NaN is
// missing: it adds nothing, and its gradient is 0.
func (t *Team) BinaryCrossEntropy(grad, logits, rows, targets *tensor.Matrix, scale float64) Sum {
	return t.loss(C.weft_binary_cross_entropy, &C.weft_loss_args{
		grad: floats(grad), logits: floats(logits), rows: ints(rows), targets: floats(targets),
		scale: C.float(scale),
	}, logits, rows)
}

// Hits is the number of listed rows (Int32, 1 × n) whose largest logit is at the label (Int32, 1 × rows). If
// several logits are equal, the first counts.
func (t *Team) Hits(logits, rows, labels *tensor.Matrix) Sum {
	return t.loss(C.weft_hits, &C.weft_loss_args{
		logits: floats(logits), rows: ints(rows), labels: ints(labels),
	}, logits, rows)
}

func (t *Team) loss(name C.int, args *C.weft_loss_args, logits, rows *tensor.Matrix) Sum {
	args.count, args.cols = C.int64_t(rows.Cols), C.int64_t(logits.Cols)
	r := on(name)
	r.bytes.Streamed = rows.Cols * logits.Cols * logits.Element.Size()
	if args.grad != nil {
		r.bytes.Streamed *= 2
	}
	return Sum{tiles(rows.Cols), func(tiles *tensor.Matrix) {
		args.tile_loss = doubles(tiles)
		t.overTiles(r, unsafe.Pointer(args), rows.Cols, logits.Cols)
	}}
}
