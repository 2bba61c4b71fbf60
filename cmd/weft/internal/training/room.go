package training

import (
	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/tensor/offload"
	"weft/train/plan"
	"weft/train/setting"
)

// Whether this machine's memory and disks have room for a planned run.

// checkMachine refuses a plan without a memory limit if its workers on this machine need more memory than the
// machine has. here is their number; 0: all.
func checkMachine(p *plan.Plan, o *setting.Options, here int) error {
	machine, all := cli.MachineMemory(), int64(0)
	for worker, tensors := range p.PeakTensorBytes {
		all += tensors + p.GraphBytes[worker]
	}
	if here > 0 {
		all = all / int64(len(p.PeakTensorBytes)) * int64(here)
	}
	if o.MemoryLimit == 0 && !o.OnCard() && machine > 0 && all > machine {
		return refusal.Errorf("the run would need %s, and this machine has %s of memory; take %s, or try "+
			"all the same with a --memory-limit",
			setting.Bytes(all).RoundedUp(), ui.Megabytes(machine), p.Resting())
	}
	return nil
}

// checkDisk refuses a folder if its disk has less room than what rests there of the workers on this machine.
// here is as in checkMachine.
func checkDisk(p *plan.Plan, dir string, here int) error {
	rests := resting(p, here)
	if dir == "" || rests == 0 {
		return nil
	}
	free, known, err := offload.Free(dir)
	if err != nil {
		return refusal.Errorf("--offload %s: %w", dir, err)
	}
	if known && free < rests {
		return refusal.Errorf("--offload %s: %s would rest there at the peak, but only %s are free; free "+
			"some room there, name another folder, or raise --memory-limit", dir,
			setting.Bytes(rests).RoundedUp(), ui.Megabytes(free))
	}
	return nil
}

// resting is the bytes that rest on disk, of the workers on this machine. here is their number; 0: all.
func resting(p *plan.Plan, here int) int64 {
	if here > 0 {
		return p.DiskBytes() / int64(len(p.Workers)) * int64(here)
	}
	return p.DiskBytes()
}

// checkResults refuses a run directory if its disk has less room than the results take, with what rests
// there. here is as in checkMachine.
func checkResults(p *plan.Plan, out, rests string, here int) error {
	free, known, err := atomicfile.Free(out)
	if err != nil || !known {
		return err
	}
	needs, offloaded := p.ResultBytes, ""
	if rests != "" && resting(p, here) > 0 && offload.OnDiskOf(rests, out) {
		needs += resting(p, here)
		offloaded = ", beside the " + ui.Megabytes(resting(p, here)) + " that rest on that disk"
	}
	if free < needs {
		return refusal.Errorf("--out %s: weights and predictions take %s there%s, and %s are free; free "+
			"some room there, or name a folder on another disk", out, ui.Megabytes(p.ResultBytes), offloaded,
			ui.Megabytes(free))
	}
	return nil
}
