// Loads the page again when the question was answered elsewhere or has expired.
const look = async () => {
  try {
    const answer = await fetch(`${location.pathname}/state`);
    if (answer.ok && (await answer.text()) !== "open") return location.reload();
  } catch {
    // The server is away; it is asked again.
  }
  setTimeout(look, 2000);
};
setTimeout(look, 2000);
