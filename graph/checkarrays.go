package graph

import "fmt"

// What arrays that come from files must fulfil before something indexes by them.

// checkIndptr checks that rows 0…rows−1 divide 0…end−1 in order.
func checkIndptr(file string, indptr []int64, rows, end int) error {
	if len(indptr) != rows+1 {
		return flawf(file, "%d entries for %d rows, which need one more than rows", len(indptr), rows)
	}
	if indptr[0] != 0 {
		return flawf(file, "it starts at %d, not at 0", indptr[0])
	}
	before := int64(0)
	for v, at := range indptr {
		if at < before {
			return flawf(file, "entry %d, %d, is below the one before it, %d", v, at, before)
		}
		before = at
	}
	if before != int64(end) {
		return flawf(file, "it ends at %d where %d entries are stored", before, end)
	}
	return nil
}

// ascend reports whether ids are within 0 … limit−1 and none is below the one before it. All edges of a graph
// pass this loop whenever it is opened, so it has no branch that depends on an id.
func ascend(ids []int32, limit int32) bool {
	if len(ids) == 0 {
		return true
	}
	fell, before := int64(0), int64(ids[0]) // fell is negative once an id was below the one before it
	for _, id := range ids[1:] {
		fell |= int64(id) - before
		before = int64(id)
	}
	return fell >= 0 && ids[0] >= 0 && ids[len(ids)-1] < limit
}

// firstMisplaced returns the first position whose id is outside 0…limit−1 or less than step above the id
// before it; −1: there is none. With step 0 an id may repeat, with step 1 it may not.
func firstMisplaced[T int32 | int64](ids []T, limit, step T) int {
	least := T(0)
	for k, id := range ids {
		if id < least || id >= limit {
			return k
		}
		least = id + step
	}
	return -1
}

// misplaced says what is wrong with the id at a position that firstMisplaced found.
func misplaced[T int32 | int64](ids []T, k int, limit T) string {
	switch {
	case ids[k] < 0 || ids[k] >= limit:
		return fmt.Sprintf("id %d is outside the range of %d", ids[k], limit)
	case ids[k] == ids[k-1]:
		return fmt.Sprintf("id %d stands twice", ids[k])
	}
	return fmt.Sprintf("id %d follows %d, but ids ascend", ids[k], ids[k-1])
}

// NotFinite returns the position of the first NaN or infinity, or −1.
func NotFinite(values []float32) int {
	for k, x := range values {
		if x-x != 0 { // only NaN and the infinities differ from themselves here
			return k
		}
	}
	return -1
}

// fills reports whether values are exactly rows × columns, without an overflow.
func fills(values, rows, columns int) bool {
	if rows == 0 || columns <= 0 {
		return values == 0 && columns >= 0
	}
	return values%columns == 0 && values/columns == rows
}
