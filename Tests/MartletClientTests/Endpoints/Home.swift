import MartletClient
import MartletClientJSON

/// The catalogue that the tests use: a house with rooms, as the documentation shows it.
enum Home: EndpointCatalogue {
    static let temperature = Endpoint(Double.self, coding: .text, qos: .atLeastOnce, retain: true, sample: 21.5) {
        "home"; Parameter("room", Room.self); "sensor"; Parameter("number", Int.self); "temperature"
    }
    static let alarm = Endpoint(Alarm.self, qos: .exactlyOnce, sample: .smoke) {
        "home"; Parameter("room", Room.self); "alarm"
    }
    static let setTarget = Call(SetTarget.self, sample: .accepted) {
        "home"; Parameter("room", Room.self); "target"
    }
    static var all: [any EndpointDeclaration] { [temperature, alarm, setTarget] }
}

struct Room: TopicParameter, RawRepresentable, ExpressibleByStringLiteral {
    var rawValue: String

    init(rawValue: String) { self.rawValue = rawValue }
    init(stringLiteral value: String) { rawValue = value }
}

enum Alarm: String, Codable, Sendable { case smoke, water, allClear }

struct SetTarget: Request, Codable {
    enum Failure: String, Error, Codable { case tooHot, unknownRoom }
    typealias Response = Accepted
    var celsius: Double
}

struct Accepted: Codable, Hashable, Sendable {
    var at: Duration

    static let accepted = Accepted(at: .seconds(1))
}

struct PlaceSearch: Request, Codable {
    static let topic: TopicName = "map/place/search"
    typealias Response = [Place]
    var region: String
    var keyword: String
}

struct Place: Codable, Hashable, Sendable {
    var title: String
}

extension PlaceSearch: Sampled {
    static var sample: [Place] { [Place(title: "Noodle bar")] }
}
