package program

import "slices"

// A program is cut into blocks between levels. A value of level k depends on k aggregations, one after the
// other.

// aggregates reports whether rows of the result depend on other vertices' rows along edges.
func (v *value) aggregates() bool {
	return v.op == "scatter" || v.op == opAggregate || v.op == opAttend
}

// along reports whether rows of the result are computed along edges.
func (v *value) along() bool { return v.aggregates() || v.op == opApply }

// operations returns the operations of a step.
func (s *step) operations() []*value {
	if s.fused == nil {
		return []*value{s.value}
	}
	return append([]*value{s.value}, s.fused.parts()...)
}

// along returns the operations of a step that are computed along edges.
func (s *step) along() (all []*value) {
	for _, v := range s.operations() {
		if v.along() {
			all = append(all, v)
		}
	}
	return all
}

// aggregates reports whether an operation of a step aggregates.
func (s *step) aggregates() bool { return slices.ContainsFunc(s.operations(), (*value).aggregates) }

// levelsOf returns the level of each value, at least 1, and the highest level. apart puts a value that is no
// aggregation into the level after the aggregations that it depends on.
func levelsOf(c *code, apart bool) (level map[*value]int, levels int) {
	level = map[*value]int{}
	depth := map[*value]int{}
	for _, s := range c.steps {
		for _, x := range s.reads {
			depth[s.value] = max(depth[s.value], depth[c.alias(x)])
		}
		if s.aggregates() {
			depth[s.value]++
		}
		level[s.value] = max(1, depth[s.value])
		if apart && !s.aggregates() {
			level[s.value] = depth[s.value] + 1
		}
		levels = max(levels, level[s.value])
	}
	return level, levels
}

// cut is a place where the program may be cut, after the steps of a level.
type cut struct {
	aggregates bool // a step of the level aggregates
	// from are values that cross this cut and not the one before; until cross the one before and not this
	// one.
	from, until []*value
}

// cutsOf returns the cuts after all levels. Values that later levels read cross a cut, and so do results.
func cutsOf(c *code, level map[*value]int, levels int, results []*value) []cut {
	cuts := make([]cut, levels)
	before := map[*value]int{} // the last level that reads the value
	for _, x := range results {
		before[x] = levels
	}
	for _, s := range c.steps {
		at := level[s.value]
		if s.aggregates() {
			cuts[at-1].aggregates = true
		}
		for _, x := range s.reads {
			if x = c.alias(x); x.Rows != None || x.ofRows {
				before[x] = max(before[x], at)
			}
		}
	}
	for x, last := range before {
		if first := level[x]; first < last {
			cuts[first-1].from = append(cuts[first-1].from, x)
			cuts[last-1].until = append(cuts[last-1].until, x)
		}
	}
	return cuts
}

// raise moves all readers of a parameter to the level of the last of them, because the stages of a pipeline
// do not share parameters. It raises values that depend on them no less.
func raise(c *code, level map[*value]int) {
	paramLevel := map[string]int{} // level by parameter
	parameters := map[*value][]string{}
	for _, s := range c.steps {
		if s.Rows != None || s.ofRows { // each block computes other values for itself
			parameters[s.value] = parametersOf(s)
		}
	}
	for again := true; again; {
		again = false
		for _, s := range c.steps {
			names, known := parameters[s.value]
			if !known {
				continue
			}
			at := level[s.value]
			for _, x := range s.reads {
				at = max(at, level[c.alias(x)])
			}
			for _, name := range names {
				at = max(at, paramLevel[name])
			}
			for _, name := range names {
				again = again || paramLevel[name] < at
				paramLevel[name] = at
			}
			again = again || level[s.value] < at
			level[s.value] = at
		}
	}
}

// mayCross reports whether these values may pass to later blocks. Tensors without rows do not pass. In one
// stage only as many values of vertices pass as a gnn.State holds without a copy: two of the first type, and
// one of each other type. Rows of edges pass only beside rows of vertices.
func (by cutting) mayCross(values map[*value]bool, first string) bool {
	counts := map[string]int{} // number of values by vertex type
	for v := range values {
		if v.Rows == Edges && by.stages > 1 {
			continue
		}
		counts[v.TypeName]++
		few := by.stages == 1 && !by.apart
		if n := counts[v.TypeName]; v.Rows != Vertices || few && (n > 2 || n > 1 && v.TypeName != first) {
			return false
		}
	}
	return len(counts) > 0
}

// parametersOf returns the names of the parameters that a step reads itself, and not through earlier steps.
func parametersOf(s step) (names []string) {
	seen := map[*value]bool{}
	var visit func(v *value)
	visit = func(v *value) {
		if seen[v] {
			return
		}
		seen[v] = true
		if v.op == "parameter" {
			names = append(names, v.o.Name)
		}
		if v.Rows == None && !v.ofRows {
			for _, x := range v.in {
				visit(x)
			}
		}
	}
	for _, x := range s.reads {
		visit(x)
	}
	if r := s.regions[inBoth]; r != nil {
		names = append(names, r.parameters...)
	}
	for _, v := range s.operations() {
		if v.op == "batch_norm" {
			names = append(names, v.o.Weight, v.o.Bias, v.o.Mean)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}
