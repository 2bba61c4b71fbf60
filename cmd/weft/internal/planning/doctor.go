// Package planning predicts the cost of training on this machine: the commands plan and doctor.
package planning

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph/datasets"
	"weft/kernel"
	"weft/kernel/machine"
)

// NewDoctor makes the command doctor.
func NewDoctor() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "say what this machine has and what would help",
		Long: `doctor prints a line for each thing that it finds on this machine, with advice where something could be better.

It measures how fast the machine reads memory and multiplies dense matrices, with one thread and with as many as a run would use.
That takes a few seconds, in which the machine should do nothing else. weft bench measures the kernels themselves.`,
		Example: "  weft doctor\n  weft doctor --json > machine.json",
		Args:    cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ui.EndWithReader()
			out := cmd.OutOrStdout()
			if asJSON {
				return ui.PrintJSON(out, examine("", machine.Beyond, func(*line) {}))
			}
			examine("", machine.Beyond, func(l *line) { l.Print(out) })
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// finding is what a check of doctor found: a JSON object. A field that is absent is unknown or does not
// apply.
type finding interface {
	describe() (found, advice string)
}

// line is a finding with its key for programs and its name for the eye.
type line struct {
	key, what, found, advice string
	finding
}

// diagnosis is what doctor found: for programs an object with an object for each line.
type diagnosis []*line

// examine examines the machine, and calls show with each line as soon as it is known. root is put before the
// paths of files. Rates are measured over so many bytes of memory.
func examine(root string, bytes int, show func(*line)) (d diagnosis) {
	add := func(key, what string, f finding) {
		found, advice := f.describe()
		l := &line{key, what, found, advice, f}
		d = append(d, l)
		show(l)
	}
	cores := findCores(root)
	quota, load := quotaFinding{cli.GroupQuota(root), cores.Threads}, findLoad(root, cores.Online)
	memory, obstacle := findMemory(root), hindranceOf(cores, quota, load)
	add("weft", "weft", buildFinding{cli.Version, runtime.Version()})
	add("cores", "cores", cores)
	add("cpu_quota", "CPU quota", quota)
	add("load", "load", load)
	add("numa", "NUMA nodes", numaFinding{listLength(systemFile(root, nodesFile))})
	add("simd", "SIMD", simdFinding{kernel.SIMD(), os.Getenv("WEFT_SIMD") != ""})
	add("bfloat16_products", "bf16 products",
		productsFinding{kernel.BFloat16Products(), os.Getenv("WEFT_BF16") != ""})
	add("memory", "memory", memory)
	add("huge_pages", "huge pages", hugePagesFinding{bracketed(systemFile(root, hugePagesFile))})
	streamed, gathered, multiplied := findRates(cores.Threads, bytes, memory.usable(), obstacle)
	add("memory_streamed", "memory, streamed", streamed)
	add("memory_gathered", "memory, gathered", gathered)
	add("dense_arithmetic", "dense arithmetic", multiplied)
	add("gpu", "GPU", findCards())
	add("dense_products", "dense products", findDenseLibrary())
	add("mpi", "MPI", findMPI())
	add("slurm", "Slurm", findSlurm())
	add("package_index", "package index", indexFinding{datasets.Named("debian").Missing()})
	add("published_datasets", "published datasets", findDatasets())
	return d
}

// MarshalJSON writes the objects of the lines, with the advice as the last field of each.
func (d diagnosis) MarshalJSON() ([]byte, error) {
	var lines []string
	for _, l := range d {
		fields, err := json.Marshal(l.finding)
		if err != nil {
			return nil, err
		}
		text := string(fields)
		if l.key != "weft" { // that line has no advice
			advice, err := json.Marshal(l.advice)
			if err != nil {
				return nil, err
			}
			before := strings.TrimSuffix(text, "}")
			text = fmt.Sprintf(`%s%s"advice":%s}`, before, ui.When(before != "{", ","), advice)
		}
		lines = append(lines, fmt.Sprintf(`"%s":%s`, l.key, text))
	}
	return []byte("{" + strings.Join(lines, ",") + "}"), nil
}

// Columns of the table. They are fixed, because a line is printed before the next one is known.
const (
	whatWidth   = 18
	foundWidth  = 48
	adviceWidth = 60
)

// Print prints a line of the table. If the finding is wider than its column, the advice is below it.
func (l *line) Print(out io.Writer) {
	text := fmt.Sprintf("%-*s  %s", whatWidth, l.what, l.found)
	if l.advice != "" {
		gap := foundWidth - utf8.RuneCountInString(l.found)
		if gap < 0 {
			text, gap = text+"\n", whatWidth+2+foundWidth
		}
		text += strings.Repeat(" ", gap+2) + l.advice
	}
	fmt.Fprintln(out, text)
}
