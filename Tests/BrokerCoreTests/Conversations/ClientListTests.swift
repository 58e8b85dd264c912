import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Pages down a sorted list of clients: many of them out of one look at all sessions.
struct ClientListTests {
    private func broker(_ count: Int) -> SimulatedBroker {
        let broker = SimulatedBroker()
        broker.checksInvariants = false
        for number in 10_000..<10_000 + count {
            broker.client("client \(number)").beginConnect(
                ConnectPacket(version: .v5, clientIdentifier: "client \(number)"))
        }
        broker.settle()
        return broker
    }

    private func page(
        _ broker: SimulatedBroker, _ selection: ClientSelection, rowsMax: Int
    ) -> (names: [String], last: ClientPosition?, hasMore: Bool, count: Int?) {
        guard let reply = broker.ask(ShardQuery(.clients(selection), rowsMax: rowsMax)), case .clients(let rows) = reply.rows else {
            return ([], nil, false, nil)
        }
        return (rows.map { "\($0.clientIdentifier)" }, rows.last?.position, reply.hasMore, reply.count)
    }

    @Test(arguments: [false, true]) func `a long list is looked through once for many pages`(isDescending: Bool) {
        let broker = broker(5_000)
        var selection = ClientSelection(order: .clientIdentifier, isDescending: isDescending)
        var (names, pages) = ([String](), 0)
        while true {
            let page = page(broker, selection, rowsMax: 50)
            names += page.names
            pages += 1
            #expect(page.count == 5_000)
            selection.after = page.last
            guard page.hasMore else { break }
        }
        let all = (10_000..<15_000).map { "client \($0)" }
        #expect(names == (isDescending ? all.reversed() : all))
        #expect(pages == 100)
        // Of 5,000 sessions five times 1,000, and the rows: a hundred looks at all would be a million steps.
        #expect(broker.cores[0].inspection.queries.stepCount < 250_000)
    }

    @Test func `pages of more rows than a list keeps are whole too`() {
        let broker = broker(3_000)
        var selection = ClientSelection(order: .clientIdentifier)
        let first = page(broker, selection, rowsMax: 2_000)
        #expect(first.names.count == 2_000 && first.hasMore)
        selection.after = first.last
        let second = page(broker, selection, rowsMax: 2_000)
        #expect(second.names == (12_000..<13_000).map { "client \($0)" } && !second.hasMore)
    }

    @Test func `a first page is looked for anew, and one behind it when the list has had its time`() {
        let broker = broker(10)
        var selection = ClientSelection(order: .clientIdentifier)
        let first = page(broker, selection, rowsMax: 4)
        broker.connected("client 10000 b")
        broker.connected("client 10004 b")
        #expect(page(broker, selection, rowsMax: 4).names.contains("client 10000 b"))
        selection.after = first.last
        broker.connected("client 10005 b")
        #expect(!page(broker, selection, rowsMax: 4).names.contains("client 10005 b"))
        broker.advance(milliseconds: Limits.clientListMilliseconds + 1)
        #expect(page(broker, selection, rowsMax: 4).names == ["client 10004", "client 10004 b", "client 10005", "client 10005 b"])
    }

    @Test func `who is gone, and who is not meant any more, is in no page`() {
        let broker = SimulatedBroker()
        let clients = (0..<10).map { number in
            let client = broker.client("client \(number)")
            client.connect(clean: false, expiry: 1000)
            return client
        }
        var selection = ClientSelection(order: .clientIdentifier)
        selection.isConnected = true
        selection.after = page(broker, selection, rowsMax: 3).last
        clients[3].disconnect()
        clients[5].disconnect(expiry: 0)
        let second = page(broker, selection, rowsMax: 3)
        #expect(second.names == ["client 4", "client 6", "client 7"] && second.hasMore)
    }

    @Test func `another selection gets a list of its own`() {
        let broker = broker(20)
        var selection = ClientSelection(order: .clientIdentifier)
        let first = page(broker, selection, rowsMax: 4)
        selection.prefix = "client 1001"
        selection.after = first.last
        #expect(page(broker, selection, rowsMax: 4).names == (10_010..<10_014).map { "client \($0)" })
    }
}
