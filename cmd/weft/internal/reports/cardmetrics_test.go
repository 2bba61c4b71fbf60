package reports

import (
	"fmt"
	"testing"

	"weft/internal/assert"
	"weft/train/metric"
)

// TestMistakes: of more classes than a table has room for, a card lists those that are taken for others, by
// all runs together, the most frequent mistake first.
func TestMistakes(t *testing.T) {
	const classes = 13
	run := func(mistakes map[[2]int]int) *cardRun {
		r := &cardRun{reportRun: &reportRun{}, Facts: &dataFacts{}}
		evaluation := &r.evaluated[2]
		for k := range classes {
			evaluation.Classes = append(evaluation.Classes, metric.ClassScores{Name: fmt.Sprint("c", k)})
			evaluation.Confusion = append(evaluation.Confusion, make([]int, classes))
			evaluation.Confusion[k][k] = 50 + k
		}
		for at, n := range mistakes {
			evaluation.Confusion[at[0]][at[1]] = n
		}
		return r
	}
	c := &modelCard{Runs: []*cardRun{
		run(map[[2]int]int{{0, 1}: 3, {1, 0}: 4, {12, 11}: 1}), run(map[[2]int]int{{0, 1}: 2, {7, 2}: 9}),
	}}
	want := [][]string{{"c7", "c2", "9"}, {"c0", "c1", "5"}, {"c1", "c0", "4"}, {"c12", "c11", "1"}}
	assert.Equal(t, want, c.Mistakes())
}
