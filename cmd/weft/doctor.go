package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func newDoctor() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "say what this machine has and what would help",
		Long: `doctor prints a line for each thing that it finds on this machine, with advice where something could be better.

It measures how fast the machine reads memory and multiplies dense matrices, with one thread and with as many as a run would use.
That takes a few seconds, in which the machine should do nothing else. weft bench measures the kernels themselves.`,
		Example: "  weft doctor\n  weft doctor --json > machine.json",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			endWithReader()
			out := cmd.OutOrStdout()
			if asJSON {
				return printJSON(out, examine(func(finding) {}))
			}
			examine(func(f finding) { printFinding(out, f) })
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// finding is a line of doctor.
type finding interface {
	line() (what, found, advice string)
}

// diagnosis is what doctor found, for programs. An absent field is unknown or does not apply.
type diagnosis struct {
	Weft         buildFinding      `json:"weft"`
	Cores        coresFinding      `json:"cores"`
	Quota        quotaFinding      `json:"cpu_quota"`
	Load         loadFinding       `json:"load"`
	NUMA         numaFinding       `json:"numa"`
	SIMD         simdFinding       `json:"simd"`
	Memory       memoryFinding     `json:"memory"`
	HugePages    hugePagesFinding  `json:"huge_pages"`
	Stream       streamFinding     `json:"memory_streamed"`
	Gather       gatherFinding     `json:"memory_gathered"`
	Arithmetic   arithmeticFinding `json:"dense_arithmetic"`
	Dense        denseFinding      `json:"dense_products"`
	MPI          mpiFinding        `json:"mpi"`
	Slurm        slurmFinding      `json:"slurm"`
	PackageIndex indexFinding      `json:"package_index"`
	Datasets     datasetsFinding   `json:"published_datasets"`
}

// examine examines the machine, and shows each finding when it is known.
func examine(show func(finding)) diagnosis {
	var d diagnosis
	d.Weft = findBuild()
	show(d.Weft)
	d.Cores, d.Quota, d.Load = findCores(""), findQuota(""), findLoad("")
	show(d.Cores)
	show(d.Quota)
	show(d.Load)
	d.NUMA, d.SIMD, d.Memory, d.HugePages = findNUMA(""), findSIMD(), findMemory(""), findHugePages("")
	show(d.NUMA)
	show(d.SIMD)
	show(d.Memory)
	show(d.HugePages)
	held := d.hindrance()
	d.Stream, d.Gather = measureMemory(d.Cores.Threads, d.Memory.usable(), held)
	show(d.Stream)
	show(d.Gather)
	d.Arithmetic = measureArithmetic(d.Cores.Threads, d.Memory.usable(), held)
	show(d.Arithmetic)
	d.Dense = findDenseLibrary()
	show(d.Dense)
	d.MPI = findMPI()
	show(d.MPI)
	d.Slurm = findSlurm()
	show(d.Slurm)
	d.PackageIndex, d.Datasets = findPackageIndex(), findDatasets()
	show(d.PackageIndex)
	show(d.Datasets)
	return d
}

// Columns of the table. They are fixed, as a line is printed before the next one is known.
const (
	whatWidth   = 18
	foundWidth  = 48
	adviceWidth = 60
)

// printFinding prints a line of the table. If the finding is wider than its column, the advice is below it.
func printFinding(out io.Writer, f finding) {
	what, found, advice := f.line()
	line := fmt.Sprintf("%-*s  %s", whatWidth, what, found)
	if advice != "" {
		gap := foundWidth - utf8.RuneCountInString(found)
		if gap < 0 {
			line, gap = line+"\n", whatWidth+2+foundWidth
		}
		line += strings.Repeat(" ", gap+2) + advice
	}
	fmt.Fprintln(out, line)
}
