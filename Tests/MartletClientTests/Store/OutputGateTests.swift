import Testing

@testable import MartletClient

/// What may leave a client before its store has what it follows from.
struct OutputGateTests {
    @Test func `what was written before a hold leaves, and the rest with its commit`() {
        var gate = OutputGate()
        #expect(gate.allowance == .max)
        gate.turnEnded(pending: 100)
        gate.hold(for: 1)
        gate.turnEnded(pending: 150)
        gate.hold(for: 2)
        #expect(gate.allowance == 100)
        gate.wrote(60)
        #expect(gate.allowance == 40)
        gate.committed(through: 1)
        #expect(gate.allowance == 90)
        gate.committed(through: 2)
        #expect(gate.allowance == .max)
    }

    @Test func `what waits for the store when a connection is lost holds all of the next`() {
        var gate = OutputGate()
        gate.turnEnded(pending: 100)
        gate.hold(for: 1)
        gate.turnEnded(pending: 200)
        gate.wrote(30)
        gate.connectionEnded()
        #expect(gate.allowance == 0)
        // What the next connection writes while that waits is held by its own commits as well, from its own beginning.
        gate.turnEnded(pending: 40)
        gate.hold(for: 2)
        gate.committed(through: 1)
        #expect(gate.allowance == 40)
        gate.wrote(40)
        #expect(gate.allowance == 0)
        gate.committed(through: 2)
        #expect(gate.allowance == .max)
    }
}
