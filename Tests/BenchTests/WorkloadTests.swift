import MQTTCodec
import Testing

@testable import Bench

@Suite struct WorkloadTests {
    private func workload(_ scenario: Scenario, _ change: (inout BenchOptions) -> Void = { _ in }) throws -> Workload {
        var options = BenchOptions()
        options.scenario = scenario
        change(&options)
        return try Workload(options)
    }

    @Test(arguments: [Scenario.fanout, .pair, .fanin, .wild, .topics, .latency, .flood, .churn])
    func `as many subscriptions match a publish as deliveries are expected`(scenario: Scenario) throws {
        let workload = try workload(scenario)
        let subscribers = scenario == .churn ? workload.publisherCount : workload.subscriberCount
        for publisher in [0, workload.publisherCount - 1] {
            for index in [0, workload.topicsPerPublisher - 1] {
                let topic = workload.topic(publisher: publisher, index: index)
                let matching = (0..<subscribers).count { workload.filter(subscriber: $0).matches(topic) }
                #expect(matching == workload.deliveriesPerPublish)
            }
        }
    }

    @Test func `every member of a share group is on the topic, and one gets the message`() throws {
        let workload = try workload(.shared) { $0.group = "g" }
        #expect(workload.deliveriesPerPublish == 1)
        #expect(workload.filter(subscriber: 0) == "$share/g/bench/room/value")
        #expect(!workload.followsNumbers)
    }

    @Test func `topics need as many subscribers each`() {
        #expect(throws: BenchError.self) {
            try workload(.topics) {
                $0.topics = 30
                $0.subscribers = 100
            }
        }
    }

    @Test(arguments: [(64, 264), (1 << 20, 2)])
    func `the window shrinks for payloads that would fill the memory`(size: Int, window: Int) throws {
        #expect(try workload(.fanout) { $0.size = size }.window == window)
    }

    @Test func `a flood is beside the pairs, and somebody has to make it`() throws {
        let workload = try workload(.flood) { $0.publishers = 3 }
        #expect(workload.floodCount == 3 && workload.publisherCount == 10 && workload.rate == 2000)
        #expect(try self.workload(.latency).floodCount == 0)
        #expect(throws: BenchError.self) { try self.workload(.flood) { $0.publishers = 0 } }
    }

    @Test(arguments: [Scenario.publish, .conns, .churn]) func `a port of their own needs subscribers`(scenario: Scenario) throws {
        #expect(throws: BenchError.self) { try self.workload(scenario) { $0.subscriberPort = 1884 } }
        #expect(try workload(.fanin) { $0.subscriberPort = 1884 }.options.subscriberPort == 1884)
    }

    @Test func `publishing alone asks for acknowledgements`() throws {
        #expect(try workload(.publish).qos == .atLeastOnce)
        #expect(try workload(.publish) { $0.qos = .exactlyOnce }.qos == .exactlyOnce)
    }

    @Test func `a session that is away is subscribed to what every publisher publishes, and more than at QoS 0`() throws {
        let workload = try workload(.away) { $0.publishers = 100 }
        #expect(workload.publisherCount == 100 && workload.subscriberCount == 0 && workload.awayCount == 1)
        #expect(workload.qos == .atLeastOnce && workload.subscriberQoS == .atLeastOnce && workload.deliveriesPerPublish == 0)
        for publisher in 0..<100 {
            #expect(workload.filter(subscriber: 0).matches(workload.topic(publisher: publisher, index: 0)))
        }
        #expect(throws: BenchError.self) { try self.workload(.away) { $0.subscribers = 0 } }
        #expect(throws: BenchError.self) { try self.workload(.away) { $0.subscriberQoS = .atMostOnce } }
    }

    @Test(arguments: [Scenario.retained, .churn])
    func `sessions are not kept where nobody would remove them`(scenario: Scenario) {
        #expect(throws: BenchError.self) { try workload(scenario) { $0.keepsSessions = true } }
    }

    @Test func `workers share all clients, each once`() throws {
        let workload = try workload(.pair) { $0.subscribers = 10 }
        let shares = (0..<3).map { WorkerShare(workload, worker: $0, of: 3) }
        #expect(shares.flatMap(\.publishers).sorted() == Array(0..<10))
        #expect(shares.flatMap(\.subscribers).sorted() == Array(0..<10))
    }
}
