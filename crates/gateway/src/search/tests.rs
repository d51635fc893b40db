use super::*;

/// (name, title, description, parameters)
const TOOLS: [(&str, &str, &str, &[&str]); 40] = [
    (
        "fleet__get_device_status",
        "",
        "Current status of one device: online, battery, firmware",
        &["sn"],
    ),
    (
        "fleet__list_devices",
        "List devices",
        "All devices of a site, page by page",
        &["site", "cursor"],
    ),
    (
        "fleet__reboot",
        "Reboot a device",
        "Restarts a device; it is offline for about a minute",
        &["sn"],
    ),
    ("fleet__update_firmware", "", "Installs a firmware version on a device", &["sn", "version"]),
    (
        "fleet__get_telemetry",
        "",
        "Temperature, humidity and voltage readings of a device over time",
        &["sn", "from", "to"],
    ),
    ("fleet__list_sites", "", "Sites with their addresses", &[]),
    (
        "tickets__create_ticket",
        "Open a ticket",
        "Creates a support ticket for a customer",
        &["title", "body", "customer_id"],
    ),
    ("tickets__close_ticket", "", "Closes a ticket as solved", &["ticket_id", "resolution"]),
    ("tickets__search_tickets", "", "Full-text search among tickets", &["query", "status"]),
    ("tickets__add_comment", "", "Adds a comment to a ticket", &["ticket_id", "text"]),
    ("tickets__assign", "", "Assigns a ticket to a member of the team", &["ticket_id", "user"]),
    ("crm__getCustomer", "", "A customer's master data and contract", &["customerId"]),
    ("crm__listCustomers", "", "Customers by region", &["region"]),
    (
        "crm__updateCustomer",
        "",
        "Changes a customer's address or phone number",
        &["customerId", "fields"],
    ),
    (
        "crm__deleteCustomer",
        "",
        "Deletes a customer and everything that belongs to it",
        &["customerId"],
    ),
    (
        "billing__list_invoices",
        "",
        "Invoices of a customer with their amounts",
        &["customer_id", "year"],
    ),
    ("billing__get_invoice_pdf", "", "An invoice as PDF", &["invoice_id"]),
    ("billing__refund", "", "Pays money back for an invoice", &["invoice_id", "amount"]),
    ("mail__send_message", "Send mail", "Sends an e-mail", &["to", "subject", "body"]),
    ("mail__list_folders", "", "Folders of the mailbox", &[]),
    ("mail__search", "", "Searches the mailbox", &["query"]),
    (
        "calendar__create_event",
        "",
        "Puts a meeting into the calendar and invites people",
        &["start", "end", "attendees"],
    ),
    (
        "calendar__find_free_slot",
        "",
        "Looks for a time at which everybody is free",
        &["attendees", "minutes"],
    ),
    ("calendar__delete_event", "", "Cancels a meeting", &["event_id"]),
    ("files__read_file", "", "Contents of a file", &["path"]),
    ("files__write_file", "", "Writes a file", &["path", "content"]),
    ("files__list_directory", "", "Names in a directory", &["path"]),
    ("files__move_file", "", "Moves or renames a file", &["source", "destination"]),
    ("git__log", "", "Commits of a repository, newest first", &["repo", "max_count"]),
    ("git__diff", "", "Differences between two commits", &["repo", "from", "to"]),
    ("git__create_branch", "", "Makes a branch", &["repo", "name"]),
    ("sql__query", "", "Runs a SELECT statement on the warehouse and gives rows", &["sql"]),
    ("sql__list_tables", "", "Tables of the warehouse with their columns", &[]),
    (
        "weather__forecast",
        "",
        "Weather forecast for a place: rain, wind, temperature",
        &["city", "days"],
    ),
    ("weather__current", "", "The weather right now", &["city"]),
    ("maps__geocode", "", "Coordinates of an address", &["address"]),
    ("maps__route", "", "Way and travel time between two places", &["from", "to"]),
    ("设备__query_status", "查询设备状态", "查询一台设备的在线状态和电量", &["sn"]),
    ("设备__export_report", "导出报表", "把设备数据导出为报表文件", &["format"]),
    (
        "time__convert",
        "",
        "Converts a time from one time zone to another",
        &["time", "source_timezone", "target_timezone"],
    ),
];

/// What somebody asks for, and the tool that is meant.
const QUERIES: [(&str, &str); 40] = [
    ("device status", "fleet__get_device_status"),
    ("is a device online", "fleet__get_device_status"),
    ("battery level of devices", "fleet__get_device_status"),
    ("list all devices", "fleet__list_devices"),
    ("restart device", "fleet__reboot"),
    ("rebooting", "fleet__reboot"),
    ("install new firmware", "fleet__update_firmware"),
    ("temperature readings", "fleet__get_telemetry"),
    ("open a support ticket", "tickets__create_ticket"),
    ("create issue ticket", "tickets__create_ticket"),
    ("closing tickets", "tickets__close_ticket"),
    ("mark ticket as solved", "tickets__close_ticket"),
    ("find tickets", "tickets__search_tickets"),
    ("comment on a ticket", "tickets__add_comment"),
    ("assign ticket to user", "tickets__assign"),
    ("customer data", "crm__getCustomer"),
    ("get customer", "crm__getCustomer"),
    ("change the phone number of a customer", "crm__updateCustomer"),
    ("remove customer", "crm__deleteCustomer"),
    ("customers in a region", "crm__listCustomers"),
    ("invoices of a year", "billing__list_invoices"),
    ("invoice pdf", "billing__get_invoice_pdf"),
    ("pay money back", "billing__refund"),
    ("send email", "mail__send_message"),
    ("search mail", "mail__search"),
    ("schedule a meeting", "calendar__create_event"),
    ("when is everybody free", "calendar__find_free_slot"),
    ("cancel meeting", "calendar__delete_event"),
    ("rename a file", "files__move_file"),
    ("read file contents", "files__read_file"),
    ("commits history", "git__log"),
    ("compare two commits", "git__diff"),
    ("run sql", "sql__query"),
    ("tables columns", "sql__list_tables"),
    ("will it rain tomorrow", "weather__forecast"),
    ("coordinates", "maps__geocode"),
    ("travel time", "maps__route"),
    ("设备的在线状态", "设备__query_status"),
    ("导出", "设备__export_report"),
    ("timezone", "time__convert"),
];

fn index() -> Index {
    let parameters: Vec<Vec<String>> =
        TOOLS.iter().map(|tool| tool.3.iter().map(|name| (*name).to_owned()).collect()).collect();
    Index::new(TOOLS.iter().zip(&parameters).map(|(tool, parameters)| Entry {
        name: tool.0,
        title: tool.1,
        description: tool.2,
        parameters,
    }))
}

fn names(found: &[usize]) -> Vec<&'static str> {
    found.iter().map(|place| TOOLS[*place].0).collect()
}

#[test]
fn what_is_described_is_found_among_the_first() {
    let index = index();
    let mut first = 0;
    let mut missed = Vec::new();
    for (query, meant) in QUERIES {
        let found = names(&index.search(query));
        first += usize::from(found.first() == Some(&meant));
        if !found.iter().take(3).any(|name| *name == meant) {
            missed
                .push(format!("{query}: {meant} is not among {:?}", &found[..found.len().min(5)]));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(first * 10 >= QUERIES.len() * 8, "only {first} of {} are first", QUERIES.len());
}

#[test]
fn what_is_misspelt_or_cut_short_is_found() {
    let index = index();
    for (query, meant) in [
        ("devise statsu", "fleet__get_device_status"),
        ("firmwar", "fleet__update_firmware"),
        ("telemetri", "fleet__get_telemetry"),
        ("invoce pdf", "billing__get_invoice_pdf"),
        ("getDeviceStatus", "fleet__get_device_status"),
        ("FLEET__GET_DEVICE_STATUS", "fleet__get_device_status"),
        ("geo", "maps__geocode"),
    ] {
        let found = names(&index.search(query));
        assert_eq!(found.first(), Some(&meant), "{query}: {found:?}");
    }
    for query in ["", "the of a", "xyzzy qwertz", "!?", &"🦀".repeat(10_000)] {
        assert!(index.search(query).is_empty(), "{query}");
    }
    assert!(Index::new(std::iter::empty()).search("x").is_empty());
}

#[test]
fn the_order_does_not_change_from_run_to_run() {
    let found = index().search("list of the customers of a device");
    for _ in 0..20 {
        assert_eq!(index().search("list of the customers of a device"), found);
    }
}

#[test]
fn words_are_cut_at_cases_numbers_and_endings() {
    assert_eq!(
        words("getHTTPStatus2 closing_tickets"),
        ["get", "httpstatus", "2", "clos", "ticket"]
    );
    assert_eq!(words("running created creates categories"), ["run", "creat", "creat", "category"]);
    assert_eq!(words("查询设备 ok 的"), ["查询", "询设", "设备", "ok", "的"]);
}

proptest::proptest! {
    #[test]
    fn any_text_can_be_searched_for(query in ".{0,300}") {
        index().search(&query);
    }
}
