import MartletClient
import MartletClientJSON
import Testing

@Suite struct EndpointCatalogueTests {
    @Test func `the catalogue is sound`() throws { try Home.check() }

    @Test func `a catalogue lists what it declares`() {
        let declarations = Home.all.map(\.declaration)
        #expect(
            declarations.map(\.topic) == ["home/{room}/sensor/{number}/temperature", "home/{room}/alarm", "home/{room}/target"])
        #expect(declarations.map(\.type) == ["Double", "Alarm", "SetTarget"])
        #expect(
            declarations.map(\.kind) == [
                .endpoint(qos: .atLeastOnce, retain: true), .endpoint(qos: .exactlyOnce, retain: false), .call,
            ])
        #expect(declarations.map(\.contentType) == [nil, "application/json", "application/json"])
    }

    @Test func `two endpoints that match one topic are found`() {
        enum Doubled: EndpointCatalogue {
            static let one = Endpoint(String.self, coding: .text) {
                "a"; Parameter("x", Int.self); "c"
            }
            static let two = Endpoint(String.self, coding: .text) {
                "a/b"; Parameter("y", Int.self)
            }
            static let three = Endpoint(String.self, coding: .text) { "a/b/c/d" }
            static var all: [any EndpointDeclaration] { [one, two, three] }
        }
        #expect(throws: CatalogueFaults(faults: ["“a/{x}/c” and “a/b/{y}” match the same topics"])) { try Doubled.check() }
    }

    @Test func `illegal texts, equal names and topics that are always too long are found`() {
        enum Broken: EndpointCatalogue {
            static let wild = Endpoint(String.self, coding: .text) { "a/#" }
            static let twice = Endpoint(String.self, coding: .text) {
                "b"; Parameter("x", Int.self); Parameter("x", Int.self)
            }
            static let long = Endpoint(String.self, coding: .text) { String(repeating: "x", count: 65_536) }
            static let empty = Endpoint(String.self, coding: .text) { "" }
            static var all: [any EndpointDeclaration] { [wild, twice, long, empty] }
        }
        let faults = #expect(throws: CatalogueFaults.self) { try Broken.check() }
        #expect(faults?.faults.count == 4, "\(String(describing: faults))")
        #expect(faults?.faults.first == "“a/#” has a wildcard in a text")
    }

    @Test func `a sample that its coding does not read back is found`() {
        struct Lossy: PayloadCoding {
            var contentType: EncodedString? { nil }
            func encode(_ value: Double) -> Payload { Payload("\(Int(value))") }
            func decode(_ payload: Payload) throws -> Double { try TextCoding().decode(payload) }
        }
        enum Rounded: EndpointCatalogue {
            static let degrees = Endpoint(Double.self, coding: MessageCoding(Lossy()), sample: 21.5) { "a" }
            static let whole = Endpoint(Double.self, coding: MessageCoding(Lossy()), sample: 21) { "b" }
            static var all: [any EndpointDeclaration] { [degrees, whole] }
        }
        #expect(throws: CatalogueFaults(faults: ["the sample of “a”: 21.5 is read back as 21.0"])) { try Rounded.check() }
    }

    @Test func `a sample is the one given, or that of the type`() {
        struct Level: Codable, Hashable, Sendable, Sampled {
            var percent: Int
            static var sample: Level { Level(percent: 50) }
        }
        #expect(Endpoint(Level.self) { "tank" }.sample == Level(percent: 50))
        #expect(Endpoint(Level.self, sample: Level(percent: 7)) { "tank" }.sample == Level(percent: 7))
        #expect(Endpoint(Alarm.self) { "a" }.sample == nil)
        #expect(Call(PlaceSearch.self) { "map" }.sample == [Place(title: "Noodle bar")])
        #expect(Home.setTarget.sample == .accepted)
    }
}
