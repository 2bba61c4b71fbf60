package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// writeLists writes tables of customers, of their payments, and of whom they like: fraud is what costs more
// than 70, and late what costs less than 20.
func writeLists(t *testing.T) {
	t.Helper()
	t.Setenv("WEFT_CACHE", t.TempDir())
	t.Chdir(t.TempDir())
	yes := map[bool]string{true: "yes", false: "no"}
	customers, payments, likes := "id,age,loyal\n", "payer,payee,amount,fraud,late\n", "payer,payee\n"
	for v := range 60 {
		customers += fmt.Sprintf("c%d,%d,%s\n", v, 20+v*7%50, yes[v*7%50 > 25])
	}
	for k := range 600 {
		amount := k * 37 % 101
		from, to := k*13%60, (k*29+k/60)%60
		payments += fmt.Sprintf("c%d,c%d,%d,%s,%s\n", from, to, amount, yes[amount > 70], yes[amount < 20])
		if k%3 == 0 {
			likes += fmt.Sprintf("c%d,c%d\n", to, (from+1)%60)
		}
	}
	all := map[string]string{"customers": customers, "payments": payments, "likes": likes}
	for name, content := range all {
		require.NoError(t, os.WriteFile(name+".csv", []byte(content), 0o600))
	}
}

// TestLabelsOfOneOfSeveralLists: what imports a column of one of several lists as RELATION:COLUMN learns it
// by that name, from the tables and from the store, which knows it as COLUMN, too.
func TestLabelsOfOneOfSeveralLists(t *testing.T) {
	writeLists(t)
	tables := []string{"payments.csv", "likes.csv"}
	how := strings.Fields("--vertices-from customers.csv --source payer --target payee")
	learn := strings.Fields("--model sage --hidden 8 --epochs 30 --threads 1 --out")
	argv := func(command string, args ...any) (all []string) {
		all = []string{command}
		for _, a := range args {
			switch a := a.(type) {
			case []string:
				all = append(all, a...)
			case string:
				all = append(all, a)
			}
		}
		return all
	}
	metricsOf := func(run string) map[string]map[string]any {
		return printed[map[string]map[string]any](t, "evaluate", run, "--json")
	}

	runWeft(t, argv("train", tables, how, "--edge-label", "payments:fraud", learn, "run")...)
	runWeft(t, argv("import", "edges", tables, "store", how, "--edge-label", "payments:fraud", "--split",
		"random:60/20/20")...)
	for _, label := range []string{"payments:fraud", "customers__payments__customers:fraud", "fraud"} {
		runWeft(t, argv("train", "store", "--edge-label", label, learn, "alone")...)
		assert.Equal(t, metricsOf("alone"), metricsOf("run"), "--edge-label %s", label)
		require.NoError(t, os.RemoveAll("alone"))
	}
	two := []string{"--parallel", "graph=2"}
	runWeft(t, argv("train", "store", "--edge-label", "payments:fraud", two, learn, "two")...)

	root, started := newRoot()
	root.SetArgs(argv("train", "store", "--edge-label", "likes:fraud", learn, "none"))
	root.SetErr(os.Stderr)
	assert.Equal(t, 2, execute(root, started), "labels of the other relation")

	runWeft(t,
		argv("predict", "run", tables, how, "--edge-label", "payments:fraud", "--out", "scores.csv")...)
	runWeft(t, argv("explain", "run", "--edge", "3", "--out", "why.html")...)
	evaluated := printed[map[string]map[string]any](t,
		argv("evaluate", "run", tables, how, "--edge-label", "payments:fraud", "--json")...)
	right, truth := 0.0, fraudsOf(t, "scores.csv")
	for k, class := range columnOf(t, "scores.csv", "class") {
		if class == truth[k] {
			right++
		}
	}
	assert.Equal(t, any(right/600), evaluated["test"]["accuracy"])

	// several labels, and a relation that is named
	lists := []string{"pays=payments.csv", "likes.csv"}
	runWeft(t, argv("train", lists, how, "--edge-label", "pays:late,fraud", learn, "both")...)
	if _, found := metricsOf("both")["test"]["micro-f1"]; !found {
		t.Error("there are no several labels")
	}
	runWeft(t, argv("train", "payments.csv", how, "--edge-label", "payments:fraud", learn, "single")...)
}

// TestCalibratedElsewhere: a run that is calibrated is measured by its fit on data without validation. The
// error is that of the probabilities of its table, in 15 bins (Guo et al. 2017).
func TestCalibratedElsewhere(t *testing.T) {
	writeLists(t)
	how := strings.Fields("--vertices-from customers.csv --source payer --target payee")
	for _, c := range []struct {
		rows, label string
		truth       func(t *testing.T, table string) []string
	}{
		{"vertices", "--label=loyal", func(*testing.T, string) []string {
			return columnOf(t, "customers.csv", "loyal")
		}},
		{"edges", "--edge-label=fraud", fraudsOf},
	} {
		train := append([]string{"train", "payments.csv", c.label}, how...)
		flags := "--calibrate isotonic --epochs 30 --seed 3 --split random:40/30/30 --out " + c.rows
		runWeft(t, append(train, strings.Fields(flags)...)...)
		later := c.rows + ".later"
		imports := []string{"import", "edges", "payments.csv", later, c.label, "--columns-of", c.rows}
		runWeft(t, append(imports, how...)...)
		measured := printed[map[string]map[string]any](t, "evaluate", c.rows, later, "--json")["test"]
		table := c.rows + ".csv"
		runWeft(t, "predict", c.rows, later, "--columns", "class,probabilities", "--out", table)

		probabilities, truth := columnOf(t, table, "probability_yes"), c.truth(t, table)
		require.Equal(t, len(truth), len(probabilities))
		const bins = 15
		var sure, right [bins]float64
		for k, text := range probabilities {
			p, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err)
			hit := truth[k] == "no"
			if p > 0.5 {
				hit = !hit
			}
			p = max(p, 1-p)
			bin := min(bins-1, int(bins*p))
			if sure[bin] += p; hit {
				right[bin]++
			}
		}
		want := 0.0
		for bin := range bins {
			want += math.Abs(sure[bin]-right[bin]) / float64(len(truth))
		}
		if got := measured["calibration-error"].(float64); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: calibration error %v, of the table %v", c.rows, got, want)
		}
		if measured["calibration-error"] == measured["calibration-error-before"] {
			t.Errorf("%s: measured without the fit", c.rows)
		}
	}
}

// fraudsOf are the labels of the payments of a table's rows. No two payments have the same ends.
func fraudsOf(t *testing.T, table string) (labels []string) {
	t.Helper()
	known := map[[2]string]string{}
	payer, payee := columnOf(t, "payments.csv", "payer"), columnOf(t, "payments.csv", "payee")
	for k, label := range columnOf(t, "payments.csv", "fraud") {
		known[[2]string{payer[k], payee[k]}] = label
	}
	payee = columnOf(t, table, "payee")
	for k, from := range columnOf(t, table, "payer") {
		labels = append(labels, known[[2]string{from, payee[k]}])
	}
	return labels
}

// columnOf is a column of a table of text with commas.
func columnOf(t *testing.T, path, column string) (values []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	at := slices.Index(strings.Split(lines[0], ","), column)
	require.Equal(t, true, at >= 0, "%s: the column %s", path, column)
	for _, line := range lines[1:] {
		values = append(values, strings.Split(line, ",")[at])
	}
	return values
}
