import ClientCore
import MQTTCodec
import Testing

@Suite struct SubscriptionTableTests {
    /// In an object, for expectations may change it.
    private final class Holder {
        var table = SubscriptionTable(chance: 41)
    }

    private let held = Holder()

    /// Asks for all that is due, and has it granted.
    private func settle() -> [UInt32] {
        var asked: [UInt32] = []
        while let ask = held.table.nextToAsk() {
            asked.append(ask.number)
            held.table.answered(ask.number)
        }
        return asked
    }

    @Test func `each consumer has a SUBSCRIBE of its own with all its filters, and a number above all before`() {
        let first = held.table.add(["a", "b"], SubscriptionOptions())
        let second = held.table.add(["a"], SubscriptionOptions(maximumQoS: .exactlyOnce))
        #expect(first < second && first == 42)
        #expect(held.table.nextToAsk()?.subscriptions.map(\.filter) == ["a", "b"])
        let ask = held.table.nextToAsk()
        #expect(
            ask?.number == second
                && ask?.subscriptions == [
                    Subscription(filter: "a", options: SubscriptionOptions(maximumQoS: .exactlyOnce))
                ])
        #expect(held.table.nextToAsk() == nil)
    }

    @Test func `a filter that is named twice is asked for once`() {
        _ = held.table.add(["a", "a"], SubscriptionOptions())
        #expect(held.table.nextToAsk()?.subscriptions.count == 1)
    }

    @Test func `a message is for all whose filters match, whoever's number it carries`() {
        let (first, second) = (held.table.add(["a/+"], SubscriptionOptions()), held.table.add(["a/+"], SubscriptionOptions()))
        let third = held.table.add(["a/b"], SubscriptionOptions())
        _ = settle()
        #expect(held.table.audience(of: "a/c", number: second, isRetained: false) == [first, second])
        #expect(held.table.audience(of: "a/b", number: third, isRetained: false) == [third])
        #expect(held.table.audience(of: "a/b", number: 0, isRetained: false) == [first, second, third])
        #expect(held.table.audience(of: "b", number: 7, isRetained: false) == [])
    }

    @Test func `a retained message is for whose SUBSCRIBE it answers`() {
        let (first, second) = (held.table.add(["a"], SubscriptionOptions()), held.table.add(["a"], SubscriptionOptions()))
        _ = settle()
        #expect(held.table.audience(of: "a", number: second, isRetained: true) == [second])
        #expect(held.table.audience(of: "a", number: 0, isRetained: true) == [first, second])
    }

    @Test func `UNSUBSCRIBE names what nobody else wants`() {
        let (first, second) = (
            held.table.add(["a", "b"], SubscriptionOptions()), held.table.add(["b", "c"], SubscriptionOptions())
        )
        _ = settle()
        #expect(held.table.remove(first) == ["a"])
        #expect(held.table.isLeaving("a") && !held.table.isLeaving("b"))
        #expect(held.table.remove(second) == ["b", "c"])
        held.table.left(["a"])
        #expect(!held.table.isLeaving("a") && held.table.isLeaving("c"))
    }

    @Test func `what the server was never asked for is not unsubscribed`() {
        let first = held.table.add(["a"], SubscriptionOptions())
        #expect(held.table.remove(first) == [])
        #expect(held.table.nextToAsk() == nil)
    }

    @Test func `a consumer that goes before its turn leaves what another has asked for to the last of both`() {
        let first = held.table.add(["a"], SubscriptionOptions())
        _ = settle()
        let second = held.table.add(["a"], SubscriptionOptions())
        #expect(held.table.remove(first) == [])
        #expect(held.table.remove(second) == ["a"])
    }

    @Test func `a server that has kept the session is asked for what it has not granted`() {
        let first = held.table.add(["a"], SubscriptionOptions())
        _ = settle()
        let second = held.table.add(["b"], SubscriptionOptions())
        _ = held.table.nextToAsk()
        #expect(held.table.connected(sessionPresent: true) == [])
        #expect(settle() == [second])
        #expect(held.table.connected(sessionPresent: false) == [])
        #expect(settle() == [first, second])
    }

    @Test func `UNSUBSCRIBE is said again where its answer was lost with the connection and not with the session`() {
        let first = held.table.add(["a"], SubscriptionOptions())
        _ = settle()
        _ = held.table.remove(first)
        #expect(held.table.connected(sessionPresent: true) == ["a"])
        #expect(held.table.isLeaving("a"))
        #expect(held.table.connected(sessionPresent: false) == [])
        #expect(!held.table.isLeaving("a"))
    }

    @Test func `asked again, a consumer has its turn once more`() {
        let first = held.table.add(["a"], SubscriptionOptions())
        _ = settle()
        held.table.askAgain(first)
        held.table.askAgain(first)
        #expect(settle() == [first])
    }

    @Test func `numbers go round below the largest Subscription Identifier`() {
        held.table = SubscriptionTable(chance: 134_217_726)
        #expect(held.table.add(["a"], SubscriptionOptions()) == 134_217_727)
        #expect(held.table.add(["a"], SubscriptionOptions()) == 134_217_728)
    }
}
