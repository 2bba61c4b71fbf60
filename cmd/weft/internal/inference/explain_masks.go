package inference

import (
	"io"

	"weft/nn"
	"weft/parallel/edges"
)

// writeMasks writes what each feature and each edge contributes.
func (x *explanation) writeMasks(to io.Writer) error {
	g, state := x.pass.graph, nn.State{}
	ints := func(name string, values []int64) { // an empty list, too, is one of integers
		state[name] = nn.Tensor{Shape: []int{len(values)}, Int64: append([]int64{}, values...)}
	}
	for kind, f := range x.found.Features {
		t := &g.Types[kind]
		var ids []int64
		var masks []float32
		for i, v := range f.IDs {
			if int(v) >= t.Count {
				continue
			}
			ids = append(ids, int64(v))
			for at := i * f.Columns; at < (i+1)*f.Columns; at++ {
				masks = append(masks, f.Inputs[at]*f.Gradients[at])
			}
		}
		ints("vertices."+t.Name()+".ids", ids)
		state["vertices."+t.Name()+".mask"] = nn.Tensor{Shape: []int{len(ids), f.Columns}, Float32: masks}
	}
	for i := range g.Relations {
		r := &g.Relations[i]
		stored := edges.Numbering{Relation: r}
		var numbers []int64
		var masks []float32
		for k := range x.edges {
			if e := &x.edges[k]; e.relation == i {
				edge := e.stored
				numbers = append(numbers,
					stored.Number(int(edge.Source), int(edge.Target), int64(edge.Before)))
				masks = append(masks, float32(e.Contribution))
			}
		}
		ints("edges."+r.FullName()+".numbers", numbers)
		state["edges."+r.FullName()+".mask"] = nn.Tensor{Shape: []int{len(masks)}, Float32: masks}
	}
	if x.Edge != nil {
		features := x.found.Edge
		mask := make([]float32, features.Columns)
		for k := range mask {
			mask[k] = features.Inputs[k] * features.Gradients[k]
		}
		state["edge.mask"] = nn.Tensor{Shape: []int{len(mask)}, Float32: mask}
	}
	return nn.EncodeState(to, state)
}
