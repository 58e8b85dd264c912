import BrokerModel
import Testing

@testable import Cluster

struct NodeLeaseTests {
    private func makeLease() -> NodeLease { NodeLease(lifeMilliseconds: 9000, allowanceMilliseconds: 2000) }

    @Test func `a lease counts from when it was asked for, less the allowance`() {
        var lease = makeLease()
        #expect(!lease.mayAct(now: 100))
        lease.renewed(askedAt: 100, at: 5, now: 900)
        #expect(lease.state == .held(until: 7100) && lease.firstSequence == 5)
        #expect(lease.mayAct(now: 7099) && !lease.mayAct(now: 7100))
    }

    @Test func `it counts on from each renewal, and is known by its first entry`() {
        var lease = makeLease()
        lease.renewed(askedAt: 1000, at: 5, now: 1100)
        lease.renewed(askedAt: 4000, at: 9, now: 4600)
        #expect(lease.sequence == 9 && lease.firstSequence == 5 && lease.state == .held(until: 11_000))
    }

    @Test func `an answer that comes too late does not revive it`() {
        var lease = makeLease()
        lease.renewed(askedAt: 0, at: 5, now: 10)
        lease.renewed(askedAt: 6000, at: 9, now: 7000)
        #expect(lease.state == .ended)
        lease.renewed(askedAt: 20_000, at: 12, now: 20_001)
        #expect(lease.state == .ended)
    }

    @Test func `a first answer that comes after its time is over is no right to act`() {
        var lease = makeLease()
        lease.renewed(askedAt: 0, at: 5, now: 7000)
        #expect(lease.state == .ended)
    }

    @Test func `an earlier answer does not shorten it`() {
        var lease = makeLease()
        lease.renewed(askedAt: 3000, at: 9, now: 3001)
        lease.renewed(askedAt: 0, at: 5, now: 3002)
        #expect(lease.state == .held(until: 10_000) && lease.sequence == 9)
    }

    @Test func `where the engine holds another entry, that was an answer that got lost; where it holds none, the lease has ended`()
    {
        var lease = makeLease()
        lease.renewed(askedAt: 0, at: 5, now: 10)
        lease.conflicted(found: 8, now: 3500)
        #expect(lease.sequence == 8 && lease.state == .held(until: 7000))
        lease.conflicted(found: nil, now: 3600)
        #expect(lease.state == .ended)
    }

    /// Its mark would refuse every other one: session storm, seed 137.
    @Test func `a first entry that was stored without an answer and is gone ends the lease`() {
        var lease = makeLease()
        lease.conflicted(found: nil, now: 9500)
        #expect(lease.state == .ended)
    }
}
