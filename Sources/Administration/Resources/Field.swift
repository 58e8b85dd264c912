internal import BrokerModel
internal import JSON

/// What a member of the API's objects is: its type, and of a number what it counts.
public indirect enum FieldKind: Sendable {
    /// What an integer or number counts, so that people are shown it in units of their own.
    public enum Unit: Sendable {
        case none
        case bytes
        case milliseconds
        case seconds
    }

    case text
    /// One of these words.
    case choice([String])
    case boolean
    case integer(ClosedRange<Int>, Unit = .none)
    /// One of these integers.
    case number(of: [Int])
    /// With a fraction.
    case decimal(isNegative: Bool = false)
    /// RFC 3339 in UTC, with milliseconds.
    case time
    /// An object, or a value, that the API's description has a name for.
    case named(String)
    /// An object of these members.
    case object([FieldDescription])
    /// An object whose members have any names and one kind.
    case dictionary(FieldKind, isNullable: Bool = false)
    case list(FieldKind)

    /// 0 or more.
    public static let count = FieldKind.integer(0...Int.max)
    /// 0 bytes or more.
    public static let bytes = FieldKind.integer(0...Int.max, .bytes)
    /// 0 milliseconds or more.
    public static let milliseconds = FieldKind.integer(0...Int.max, .milliseconds)
    /// 0 seconds or more.
    public static let seconds = FieldKind.integer(0...Int.max, .seconds)
    static let qos = FieldKind.named("QoS")
    static let drops = FieldKind.named("DropCounts")
}

/// A member of the API's objects, as it is declared once for all who show it.
public struct FieldDescription: Sendable {
    /// In JSON, in `fields=` and in `sort=`.
    public let name: String
    public let kind: FieldKind
    /// Above its column where `martlet ctl` shows it in a table; nil for the name in capitals.
    public let column: String?
    /// For the API's description; nil where the name says it.
    public let help: String?
    /// Whether it may be null.
    public let isNullable: Bool
    /// Whether it is always there.
    public let isRequired: Bool

    init(
        _ name: String, _ kind: FieldKind, column: String? = nil, help: String? = nil, isNullable: Bool = false,
        isRequired: Bool = true
    ) {
        (self.name, self.kind, self.column, self.help) = (name, kind, column, help)
        (self.isNullable, self.isRequired) = (isNullable, isRequired)
    }

    /// Whether it stands at the right of its column.
    public var isNumber: Bool {
        switch kind {
        case .integer, .number, .decimal, .named("QoS"), .named("DropCounts"): true
        default: false
        }
    }
}

/// A member with what writes it, and with what measures it where it is a metric too.
///
/// The functions with a name and a value make one each for a type of value: `integer("port", \.port)`.
struct Field<Row>: Sendable {
    private(set) var description: FieldDescription
    /// Sets the member in an object; leaves it out where there is none.
    let write: @Sendable (Row, inout JSONObject) -> Void
    /// Its value as a metric; nil for what is no number, or not known.
    let measure: @Sendable (Row) -> Double?
    /// What Prometheus calls it.
    private(set) var metric: Metric?
    /// Whether it is a metric alone.
    private(set) var isUnlisted = false

    /// How Prometheus is told of a field.
    struct Metric: Sendable {
        let name: String
        let help: String
        let isCounter: Bool
        /// A label beside those of the row, where several fields are one metric.
        let label: (String, String)?
    }

    var name: String { description.name }

    private init(
        _ description: FieldDescription, _ write: @escaping @Sendable (Row, inout JSONObject) -> Void,
        measure: @escaping @Sendable (Row) -> Double? = { _ in nil }
    ) {
        (self.description, self.write, self.measure) = (description, write, measure)
    }

    // MARK: By the type of the value

    static func text(
        _ name: String, as kind: FieldKind = .text, column: String? = nil, help: String? = nil,
        _ value: @escaping @Sendable (Row) -> String
    ) -> Field {
        Field(FieldDescription(name, kind, column: column, help: help)) { $1.set(name, value($0)) }
    }

    static func textOrNull(
        _ name: String, as kind: FieldKind = .text, column: String? = nil, help: String? = nil,
        _ value: @escaping @Sendable (Row) -> String?
    ) -> Field {
        Field(FieldDescription(name, kind, column: column, help: help, isNullable: true)) { $1.set(name, orNull: value($0)) }
    }

    /// Left out where it is nil.
    static func textIfAny(
        _ name: String, as kind: FieldKind = .text, help: String? = nil, _ value: @escaping @Sendable (Row) -> String?
    ) -> Field {
        Field(FieldDescription(name, kind, help: help, isRequired: false)) { row, object in
            if let text = value(row) { object.set(name, text) }
        }
    }

    /// Left out where there is nothing to say, which is not the same as null.
    static func textOrNullIfAny(_ name: String, help: String? = nil, _ value: @escaping @Sendable (Row) -> String??) -> Field {
        Field(FieldDescription(name, .text, help: help, isNullable: true, isRequired: false)) { row, object in
            if let text = value(row) { object.set(name, orNull: text) }
        }
    }

    static func texts(
        _ name: String, as kind: FieldKind = .text, help: String? = nil, _ value: @escaping @Sendable (Row) -> [String]
    ) -> Field {
        Field(FieldDescription(name, .list(kind), help: help)) { $1.set(name, value($0)) }
    }

    static func boolean(_ name: String, column: String? = nil, help: String? = nil, _ value: @escaping @Sendable (Row) -> Bool)
        -> Field
    {
        Field(FieldDescription(name, .boolean, column: column, help: help)) {
            $1.set(name, value($0))
        } measure: {
            value($0) ? 1 : 0
        }
    }

    static func booleanOrNull(_ name: String, help: String? = nil, _ value: @escaping @Sendable (Row) -> Bool?) -> Field {
        Field(FieldDescription(name, .boolean, help: help, isNullable: true)) {
            $1.set(name, orNull: value($0))
        } measure: {
            value($0).map { $0 ? 1 : 0 }
        }
    }

    static func integer<Value: FixedWidthInteger & SendableMetatype>(
        _ name: String, as kind: FieldKind = .count, column: String? = nil, help: String? = nil,
        _ value: @escaping @Sendable (Row) -> Value
    ) -> Field {
        Field(FieldDescription(name, kind, column: column, help: help)) {
            $1.set(name, value($0))
        } measure: {
            Double(value($0))
        }
    }

    static func integerOrNull<Value: FixedWidthInteger & SendableMetatype>(
        _ name: String, as kind: FieldKind = .count, column: String? = nil, help: String? = nil,
        _ value: @escaping @Sendable (Row) -> Value?
    ) -> Field {
        Field(FieldDescription(name, kind, column: column, help: help, isNullable: true)) {
            $1.set(name, orNull: value($0))
        } measure: {
            value($0).map { Double($0) }
        }
    }

    /// Left out where it is nil.
    static func integerIfAny<Value: FixedWidthInteger & SendableMetatype>(
        _ name: String, as kind: FieldKind = .count, help: String? = nil, _ value: @escaping @Sendable (Row) -> Value?
    ) -> Field {
        Field(FieldDescription(name, kind, help: help, isRequired: false)) { row, object in
            if let number = value(row) { object.set(name, number) }
        } measure: {
            value($0).map { Double($0) }
        }
    }

    static func decimal(
        _ name: String, as kind: FieldKind = .decimal(), column: String? = nil, help: String? = nil,
        _ value: @escaping @Sendable (Row) -> Double
    ) -> Field {
        Field(FieldDescription(name, kind, column: column, help: help)) {
            $1.set(name, value($0))
        } measure: {
            value($0)
        }
    }

    static func decimalOrNull(
        _ name: String, as kind: FieldKind = .decimal(), column: String? = nil, help: String? = nil,
        _ value: @escaping @Sendable (Row) -> Double?
    ) -> Field {
        Field(FieldDescription(name, kind, column: column, help: help, isNullable: true)) {
            $1.set(name, orNull: value($0))
        } measure: {
            value($0)
        }
    }

    /// - Parameter value: milliseconds since 1970.
    static func time(_ name: String, column: String? = nil, help: String? = nil, _ value: @escaping @Sendable (Row) -> UInt64)
        -> Field
    {
        Field(FieldDescription(name, .time, column: column, help: help)) {
            $1.set(name, Timestamp.text(value($0)))
        } measure: {
            Double(value($0)) / 1000
        }
    }

    /// - Parameter value: milliseconds since 1970.
    static func timeOrNull(
        _ name: String, column: String? = nil, help: String? = nil, _ value: @escaping @Sendable (Row) -> UInt64?
    ) -> Field {
        Field(FieldDescription(name, .time, column: column, help: help, isNullable: true)) {
            $1.set(name, orNull: value($0).map { Timestamp.text($0) })
        } measure: {
            value($0).map { Double($0) / 1000 }
        }
    }

    /// An object that something else makes.
    static func object(_ name: String, as kind: FieldKind, help: String? = nil, _ value: @escaping @Sendable (Row) -> JSONObject)
        -> Field
    {
        Field(FieldDescription(name, kind, help: help)) { $1.set(name, value($0)) }
    }

    /// An object of a resource.
    static func object<Inner>(
        _ name: String, as resource: Resource<Inner>, help: String? = nil, _ value: @escaping @Sendable (Row) -> Inner
    ) -> Field {
        Field(FieldDescription(name, resource.kind, help: help)) { $1.set(name, resource.json(value($0))) }
    }

    static func objectOrNull<Inner>(
        _ name: String, as resource: Resource<Inner>, column: String? = nil, help: String? = nil,
        _ value: @escaping @Sendable (Row) -> Inner?
    ) -> Field {
        Field(FieldDescription(name, resource.kind, column: column, help: help, isNullable: true)) {
            $1.set(name, orNull: value($0).map { resource.json($0) })
        }
    }

    static func objects<Inner>(
        _ name: String, as resource: Resource<Inner>, help: String? = nil, _ value: @escaping @Sendable (Row) -> [Inner]
    ) -> Field {
        Field(FieldDescription(name, .list(resource.kind), help: help)) { $1.set(name, value($0).map { resource.json($0) }) }
    }

    /// Left out where there are none.
    static func objectsIfAny<Inner>(
        _ name: String, as resource: Resource<Inner>, help: String? = nil, _ value: @escaping @Sendable (Row) -> [Inner]
    ) -> Field {
        Field(FieldDescription(name, .list(resource.kind), help: help, isRequired: false)) { row, object in
            let values = value(row)
            if !values.isEmpty { object.set(name, values.map { resource.json($0) }) }
        }
    }

    /// A metric that no object has as a member.
    static func measured<Value: FixedWidthInteger & SendableMetatype>(_ value: @escaping @Sendable (Row) -> Value) -> Field {
        var field = Field(FieldDescription("", .count), { _, _ in }, measure: { Double(value($0)) })
        field.isUnlisted = true
        return field
    }

    /// Left out where it is nil.
    static func booleanIfAny(_ name: String, help: String? = nil, _ value: @escaping @Sendable (Row) -> Bool?) -> Field {
        Field(FieldDescription(name, .boolean, help: help, isRequired: false)) { row, object in
            if let value = value(row) { object.set(name, value) }
        }
    }

    static func integers<Value: FixedWidthInteger & SendableMetatype>(
        _ name: String, as kind: FieldKind = .count, help: String? = nil, _ value: @escaping @Sendable (Row) -> [Value]
    ) -> Field {
        Field(FieldDescription(name, .list(kind), help: help)) { $1.set(name, value($0)) }
    }

    // MARK: Metrics

    func gauge(_ metric: String, _ help: String, _ label: (String, String)? = nil) -> Field {
        measured(as: Metric(name: metric, help: help, isCounter: false, label: label))
    }

    func counter(_ metric: String, _ help: String, _ label: (String, String)? = nil) -> Field {
        measured(as: Metric(name: metric, help: help, isCounter: true, label: label))
    }

    private func measured(as metric: Metric) -> Field {
        var field = self
        field.metric = metric
        return field
    }

    /// Its value as Prometheus has it, where times are seconds.
    func sample(_ row: Row) -> Double? {
        if case .integer(_, .milliseconds) = description.kind { return measure(row).map { $0 / 1000 } }
        return measure(row)
    }

    // MARK: -

    /// The field of what holds such a row.
    func of<Outer>(_ row: @escaping @Sendable (Outer) -> Row) -> Field<Outer> {
        Field<Outer>(description, { write(row($0), &$1) }, measure: { measure(row($0)) })
    }
}

extension Field where Row == ShardStatistics {
    /// A figure that is told below `$SYS` too.
    static func figure(_ name: String, as kind: FieldKind = .count, _ figure: SystemFigure) -> Field {
        .integer(name, as: kind) { figure.value(of: $0) ?? 0 }
    }

    /// A figure that is told below `$SYS` too, as a metric that no object has as a member.
    static func measured(_ figure: SystemFigure) -> Field {
        var field = Field(FieldDescription("", .count), { _, _ in }, measure: { figure.value(of: $0).map { Double($0) } })
        field.isUnlisted = true
        return field
    }
}

/// A kind of object of the API, with its members in their order: what an answer has, what `fields=` and `sort=` know,
/// what openapi.json says, what Prometheus is told and what `martlet ctl` shows come from here.
struct Resource<Row>: Sendable {
    /// In the API's description; nil for one that is described where it stands.
    let name: String?
    let help: String?
    /// The one member that is there whatever is asked for with `fields=`; nil where all are there always.
    let key: String?
    let fields: [Field<Row>]

    init(_ name: String?, help: String? = nil, key: String? = nil, _ fields: [Field<Row>]) {
        (self.name, self.help, self.key, self.fields) = (name, help, key, fields)
    }

    /// Its members, without those that are metrics alone.
    var members: [FieldDescription] { fields.filter { !$0.isUnlisted }.map(\.description) }

    var names: [String] { members.map(\.name) }

    var kind: FieldKind { name.map { .named($0) } ?? .object(members) }

    func json(_ row: Row) -> JSONObject {
        var object = JSONObject()
        write(row, to: &object)
        return object
    }

    /// Adds its members to an object that has others too.
    func write(_ row: Row, to object: inout JSONObject) { for field in fields { field.write(row, &object) } }

    /// With only those members, and the key.
    func json(_ row: Row, only names: Set<String>?) -> JSONObject {
        guard let names else { return json(row) }
        var object = JSONObject()
        for field in fields where names.contains(field.name) || field.name == key { field.write(row, &object) }
        return object
    }

    /// Writes the metrics of rows.
    ///
    /// - Parameters:
    ///   - rows: each with its labels.
    ///   - text: where they go.
    func write(_ rows: [(labels: MetricText.Labels, row: Row)], to text: inout MetricText) {
        var written: Set<String> = []
        for field in fields {
            guard let metric = field.metric, written.insert(metric.name).inserted else { continue }
            let parts = fields.filter { $0.metric?.name == metric.name }
            let samples = rows.flatMap { labels, row in
                parts.compactMap { part in
                    part.sample(row).map { (labels + [part.metric?.label].compactMap { $0 }, $0) }
                }
            }
            if metric.isCounter {
                text.counter(metric.name, metric.help, samples)
            } else {
                text.gauge(metric.name, metric.help, samples)
            }
        }
    }
}

/// The kinds of objects that others show too, as `martlet ctl` does in its tables.
public struct ResourceDescription: Sendable {
    public let members: [FieldDescription]

    init<Row>(_ resource: Resource<Row>) { members = resource.members }

    /// A member by its name; nil for none.
    public subscript(name: String) -> FieldDescription? { members.first { $0.name == name } }
}

extension ResourceDescription {
    /// A session and the connection that it is on.
    public static var client: ResourceDescription { ResourceDescription(ClientAnswers.clientResource) }
    /// A message that waits for a client, or is in flight to it.
    public static var queuedMessage: ResourceDescription { ResourceDescription(ClientAnswers.queuedMessageResource) }
    /// A subscription.
    public static var subscription: ResourceDescription { ResourceDescription(ClientAnswers.subscriptionResource) }
    /// A retained message, without its payload.
    public static var retainedMessage: ResourceDescription { ResourceDescription(TopicAnswers.retainedResource) }
    /// A connection that has ended, or was refused.
    public static var closedConnection: ResourceDescription { ResourceDescription(TopicAnswers.closedConnectionResource) }
    /// A message that was dropped.
    public static var drop: ResourceDescription { ResourceDescription(TopicAnswers.dropResource) }
    /// A place where clients connect.
    public static var listener: ResourceDescription { ResourceDescription(BrokerAnswers.listenerResource) }
    /// A bridge to another broker.
    public static var bridge: ResourceDescription { ResourceDescription(BridgeAnswers.bridgeResource) }
    /// A node of the cluster.
    public static var node: ResourceDescription { ResourceDescription(Administration.nodeResource) }
    /// A client, user, address or network that is not let in.
    public static var ban: ResourceDescription { ResourceDescription(BanAnswers.banResource) }
    /// Something that is wrong with the broker, or was.
    public static var alarm: ResourceDescription { ResourceDescription(Administration.alarmResource) }
    /// A program's token, without its secret.
    public static var token: ResourceDescription { ResourceDescription(AccessAnswers.tokenResource) }
    /// What was counted of a topic filter.
    public static var topicMetric: ResourceDescription { ResourceDescription(Administration.topicMetricResource) }
    /// The record of a client, topic or address.
    public static var trace: ResourceDescription { ResourceDescription(Trace.resource) }
}
