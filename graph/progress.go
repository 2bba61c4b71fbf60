package graph

// Progress is called now and then by work that has several stages: so many of all items of a stage are done.
// All is 0 where their number is not known. Calls follow each other. It may be nil.
type Progress func(stage string, done, all int64)

// Report calls p unless it is nil.
func (p Progress) Report(stage string, done, all int64) {
	if p != nil {
		p(stage, done, all)
	}
}
