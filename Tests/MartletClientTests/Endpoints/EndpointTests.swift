import MartletClient
import Testing

@Suite struct EndpointTests {
    @Test func `an endpoint makes topics of its parameters, and filters with nil for any`() throws {
        #expect(try Home.temperature("kitchen", 3).name == "home/kitchen/sensor/3/temperature")
        #expect(try Home.temperature.matching("kitchen", nil).filter == "home/kitchen/sensor/+/temperature")
        #expect(try Home.temperature.matching(nil, nil).filter == "home/+/sensor/+/temperature")
        #expect(try Home.setTarget("cellar").name == "home/cellar/target")
    }

    @Test func `an endpoint without parameters has one topic`() throws {
        let clock = Endpoint(String.self, coding: .text) { "house/clock" }
        #expect(try clock().name == "house/clock")
        #expect(try clock.matching().filter == "house/clock")
        let _: Void = try clock.parameters(of: "house/clock")
    }

    @Test func `topics are read back into parameters, a single one as the value itself`() throws {
        let (room, number) = try Home.temperature.parameters(of: "home/kitchen/sensor/3/temperature")
        #expect(room == "kitchen")
        #expect(number == 3)
        let alone = try Home.alarm.parameters(of: "home/cellar/alarm")
        #expect(alone == "cellar")
    }

    @Test(arguments: [
        "home/kitchen/sensor/3", "home/kitchen/sensor/3/temperature/more", "home/kitchen/sensor/3/humidity", "home", "home/",
        "home/kitchen/sensor/x/temperature", "home/kitchen/sensor/03/temperature", "home/kitchen/sensor//temperature",
        "/home/kitchen/sensor/3/temperature",
    ])
    func `a topic of another shape is none of the endpoint's`(topic: String) throws {
        let name = try #require(TopicName(topic))
        let error = #expect(throws: ClientError.self) { _ = try Home.temperature.parameters(of: name) }
        guard case .undecodable? = error else { throw error ?? .ended }
    }

    @Test(arguments: ["", "a/b", "+", "#", "a#", "a+b", "a\0b"])
    func `a value that makes no level is an error and never another topic`(text: String) throws {
        let room = Room(rawValue: text)
        #expect(throws: ClientError.self) { try Home.temperature(room, 3).name }
        #expect(throws: ClientError.self) { try Home.temperature.matching(room, nil).filter }
        #expect(throws: ClientError.self) { try Home.temperature(room, 3).publication(1) }
        #expect(throws: ClientError.self) { try Home.setTarget(room).name }
    }

    @Test func `the first level is not the server's`() {
        let any = Endpoint(String.self, coding: .text) {
            Parameter("first", String.self); "b"
        }
        #expect(throws: ClientError.topic("first is “$share”: the first level must not begin with a dollar sign")) {
            try any("$share").name
        }
        #expect(throws: ClientError.self) { try any.matching("$share").filter }
    }

    @Test func `parameters are strings, numbers, enumerations and raw values`() throws {
        enum Floor: Int, TopicParameter { case cellar = -1, ground = 0 }
        enum Side: String, TopicParameter, CaseIterable { case left, right }
        let lamp = Endpoint(Bool.self, coding: .text) {
            "lamps"
            Parameter("floor", Floor.self)
            Parameter("side", Side.self)
            Parameter("isBig", Bool.self)
            Parameter("number", UInt8.self)
        }
        #expect(try lamp(.cellar, .right, true, 200).name == "lamps/-1/right/true/200")
        let (floor, side, isBig, number) = try lamp.parameters(of: "lamps/0/left/false/7")
        #expect(floor == .ground && side == .left && isBig == false && number == 7)
        #expect(throws: ClientError.self) { try lamp.parameters(of: "lamps/1/left/false/7") }
        #expect(throws: ClientError.self) { try lamp.parameters(of: "lamps/0/left/false/256") }
    }

    @Test func `a publication has the endpoint's QoS and RETAIN, and the coding's bytes and properties`() throws {
        let temperature = try Home.temperature("kitchen", 3).publication(21.5)
        #expect(temperature == Publication("home/kitchen/sensor/3/temperature", "21.5", qos: .atLeastOnce, retain: true))
        let alarm = try Home.alarm("kitchen").publication(.smoke)
        #expect(alarm.payload == "\"smoke\"")
        #expect(alarm.qos == .exactlyOnce)
        #expect(alarm.properties.contentType == "application/json")
        #expect(alarm.properties.payloadFormatIndicator == 1)
    }

    @Test func `every level survives, whatever its characters`() throws {
        let any = Endpoint(String.self, coding: .text) {
            "a"; Parameter("one", String.self); Parameter("two", String.self)
        }
        for one in ["$x", " ", "é", "日本", "a.b", "{room}", "-", String(repeating: "x", count: 300)] {
            for two in ["1", "$", "?"] {
                let (first, second) = try any.parameters(of: try any(one, two).name)
                #expect(first == one && second == two)
            }
        }
    }

    @Test func `a topic that is too long is an error`() {
        let any = Endpoint(String.self, coding: .text) {
            "a"; Parameter("one", String.self)
        }
        #expect(throws: Never.self) { try any(String(repeating: "x", count: 65_533)).name }
        #expect(throws: ClientError.self) { try any(String(repeating: "x", count: 65_534)).name }
    }
}
