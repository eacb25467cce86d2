"""One rank of a toy mixture-of-experts trainer on CPU torch: two processes over gloo, experts in slots of two cards.

Usage: toy_trainer.py RANK FILE(store) FOLDER STEPS BALANCE(0|1) DIE_AFTER(0: never). A checkpoint is written every 10
steps and read where there is one. Prints one line of JSON: losses, tokens by expert, placements, moved bytes.
The routing is skewed (inputs cluster), so that the contiguous placement is unbalanced and moves pay.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from autodeploy.balance.experts import Links, Task, Topology, contiguous
from autodeploy.balance.live import ExpertBalancer, LoadRecorder, Rearrangement

WORLD, EXPERTS, SLOTS, HIDDEN, TOKENS, TOP = 2, 8, 12, 6, 64, 2
STATE = 3 * HIDDEN * HIDDEN  # numbers of an expert: weight and two Adam moments
RATE, BETAS, EPSILON = 1e-2, (0.9, 0.99), 1e-8


class Trainer:
    """The slots of this rank, a router that all ranks hold alike, and the balancer."""

    def __init__(self, rank: int, folder: Path, balance: bool) -> None:
        self.rank, self.folder, self.balance = rank, folder, balance
        placement = contiguous(1, EXPERTS, WORLD, SLOTS)
        links = Links(bytes_per_expert=8.0 * STATE, intra_bytes_per_s=1e9, inter_bytes_per_s=1e9)
        task = Task(topology=Topology(nodes=1, cards_per_node=WORLD), links=links, seconds_per_token=1e-5)
        self.balancer = ExpertBalancer(placement, task, horizon=16)
        self.recorder = LoadRecorder(1, EXPERTS)
        torch.manual_seed(0)
        every = torch.randn(EXPERTS, HIDDEN, HIDDEN, dtype=torch.float64) / HIDDEN
        self.slots = torch.zeros(SLOTS // WORLD, 3, HIDDEN, HIDDEN, dtype=torch.float64)
        self.slots[:, 0] = every[torch.from_numpy(placement.slot_expert[0, rank])]
        self.router = torch.randn(HIDDEN, EXPERTS, dtype=torch.float64)[:, [4, 0, 7, 5, 1, 3, 2, 6]]  # hot ones first
        self.target = torch.randn(HIDDEN, HIDDEN, dtype=torch.float64) / HIDDEN
        self.step, self.moved_bytes = 0, 0.0
        self.log: dict[str, list] = {"loss": [], "tokens": [], "placement": [], "peak": []}

    def batch(self) -> torch.Tensor:
        """Inputs of all ranks [WORLD * TOKENS, HIDDEN]: two clusters, so that few experts are chosen by most."""
        generator = torch.Generator().manual_seed(1000 + self.step)
        noise = torch.randn(WORLD * TOKENS, HIDDEN, dtype=torch.float64, generator=generator)
        own = 0.4 * noise + torch.where(torch.arange(WORLD * TOKENS) % 3 == 0, 1.0, -1.0)[:, None]
        pieces = list(own.chunk(WORLD))
        gathered = [torch.empty_like(piece) for piece in pieces]
        dist.all_gather(gathered, pieces[self.rank].contiguous())  # every rank brings its own tokens
        return torch.cat(gathered)

    def train_step(self) -> None:
        inputs = self.batch()
        wanted = inputs @ self.target
        weight, chosen = torch.softmax(inputs @ self.router, dim=1).topk(TOP, dim=1)
        held = self.balancer.placement.slot_expert[0]  # [WORLD, slots of a card]
        experts = self.slots[:, 0].clone().requires_grad_(True)
        partial = torch.zeros_like(inputs)
        processed = torch.zeros(EXPERTS, dtype=torch.float64)
        for slot, expert in enumerate(held[self.rank].tolist()):
            copies = [(card, s) for card in range(WORLD) for s in range(SLOTS // WORLD) if held[card, s] == expert]
            row, choice = torch.nonzero(chosen == expert, as_tuple=True)
            mine = torch.arange(len(row)) % len(copies) == copies.index((self.rank, slot))  # copies take turns
            row, choice = row[mine], choice[mine]
            out = torch.tanh(inputs[row] @ experts[slot]) * weight[row, choice, None]
            partial = partial.index_add(0, row, out)
            processed[expert] += len(row)
        output = partial.detach().clone()
        dist.all_reduce(output)
        dist.all_reduce(processed)
        error = output - wanted
        partial.backward(2 * error / error.numel())
        self.update(experts.grad, held)
        self.recorder.add(0, processed.numpy())
        loads = self.recorder.end_step()
        self.log["loss"].append(float((error**2).mean()))
        self.log["tokens"].append(processed.tolist())
        self.log["peak"].append(self.peak(loads[0], held))
        self.step += 1
        if self.balance:
            self.balancer.observe(loads)
            if self.step % 5 == 0 and (plan := self.balancer.decide()) is not None:
                self.carry_out(plan)
        self.log["placement"].append(self.balancer.placement.slot_expert[0].tolist())

    @staticmethod
    def peak(loads: np.ndarray, held: np.ndarray) -> float:
        share = (loads / np.bincount(held.ravel(), minlength=EXPERTS))[held].sum(axis=1)
        return float(share.max() / share.mean())

    def update(self, gradient: torch.Tensor, held: np.ndarray) -> None:
        """Gradients of an expert's copies summed over both ranks, then Adam in every slot."""
        total = torch.zeros(EXPERTS, HIDDEN, HIDDEN, dtype=torch.float64)
        own = torch.from_numpy(held[self.rank])
        total.index_add_(0, own, gradient)
        dist.all_reduce(total)
        weight, first, second = self.slots.unbind(1)
        grad, time = total[own], self.step + 1
        first.mul_(BETAS[0]).add_(grad, alpha=1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
        ahead = first / (1 - BETAS[0] ** time) / ((second / (1 - BETAS[1] ** time)).sqrt() + EPSILON)
        weight.sub_(ahead, alpha=RATE)

    def carry_out(self, plan: Rearrangement) -> None:
        """Moves in order; what a card takes in waits beside its slots, and goes on from there, until all are done."""
        before, after = plan.before.slot_expert[0], plan.after.slot_expert[0]
        beside: dict[int, torch.Tensor] = {e: self.slots[s].clone() for s, e in enumerate(before[self.rank].tolist())}
        for move in plan.moves:
            if self.rank == move.from_card:
                dist.send(beside[move.expert].contiguous(), move.to_card)
            if self.rank == move.to_card:
                taken = torch.empty(3, HIDDEN, HIDDEN, dtype=torch.float64)
                dist.recv(taken, move.from_card)
                beside[move.expert] = taken
        self.slots = torch.stack([beside[expert] for expert in after[self.rank].tolist()])
        self.moved_bytes += plan.moved_bytes

    def save(self) -> None:
        path = self.folder / f"rank{self.rank}.pt"
        state = {"balancer": self.balancer.state_dict(), "slots": self.slots, "step": self.step, "log": self.log}
        torch.save(state | {"moved_bytes": self.moved_bytes}, path.with_suffix(".new"))
        os.replace(path.with_suffix(".new"), path)

    def load(self) -> None:
        path = self.folder / f"rank{self.rank}.pt"
        if not path.exists():
            return
        state = torch.load(path, weights_only=False)
        self.balancer.load_state_dict(state["balancer"])
        self.slots, self.step, self.log = state["slots"], state["step"], state["log"]
        self.moved_bytes = state["moved_bytes"]


def main(rank: int, store: str, folder: Path, steps: int, balance: bool, die_after: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    trainer = Trainer(rank, folder, balance)
    trainer.load()
    while trainer.step < steps:
        trainer.train_step()
        if trainer.step % 10 == 0:
            dist.barrier()
            trainer.save()
            dist.barrier()
        if trainer.step == die_after:
            os.kill(os.getpid(), signal.SIGKILL)
    print(json.dumps(trainer.log | {"moved_bytes": trainer.moved_bytes}))
    dist.destroy_process_group()


if __name__ == "__main__":
    rank, store, folder, steps, balance, die_after = sys.argv[1:]
    main(int(rank), store, Path(folder), int(steps), balance == "1", int(die_after))
