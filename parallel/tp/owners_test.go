package tp

import (
	"slices"
	"testing"

	"weft/internal/assert"
)

// TestOwnersOfThePaper is NeutronTP's Figure 9 (d): four chunks of two destinations each, and two workers.
func TestOwnersOfThePaper(t *testing.T) {
	chunks := [][]int32{{3, 4}, {3, 4, 5, 6}, {0, 3, 6, 7}, {1, 2, 3, 4}}
	got := assignOwners(8, 2, 4, func(chunk int, visit func(source int32)) {
		for _, source := range chunks[chunk] {
			visit(source)
		}
	})
	assert.Equal(t, [][]int32{{3, 5, 0, 1}, {4, 6, 7, 2}}, got)
}

// TestOwnersAreEven: each row has one owner, even if it is never a source, and each worker owns the number of
// rows that owned says.
func TestOwnersAreEven(t *testing.T) {
	for rows := range 40 {
		for workers := 1; workers < 9; workers++ {
			var all []int32
			lists := assignOwners(rows, workers, 5, func(chunk int, visit func(source int32)) {
				for target := rows * chunk / 5; target < rows*(chunk+1)/5; target++ {
					for k := range target % 4 {
						visit(int32((target*7 + 3*k) % rows / 2))
					}
				}
			})
			for i, list := range lists {
				all = append(all, list...)
				if want := ownedRows(rows, workers, i); len(list) != want {
					t.Errorf("worker %d of %d owns %d of %d rows, want %d", i, workers, len(list), rows, want)
				}
			}
			slices.Sort(all)
			for row, got := range all {
				if int(got) != row || len(all) != rows {
					t.Fatalf("%d workers own %v of %d rows", workers, all, rows)
				}
			}
		}
	}
}
